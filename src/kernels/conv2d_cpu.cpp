// conv2d: y[b, o, i, j] = bias[o] + sum_{c, u, v} weight[o, c, u, v] * x[b, c, i*stride + u - pad, j*stride + v - pad]
//
// Shapes     x[b, c, h, w], weight[o, c, kh, kw], bias[o] -> y[b, o, oh, ow], oh = (h + 2*pad - kh) / stride + 1;
//            x is zero outside the image.
// Dtypes     f32; bf16 with f32 sums, where the CPU has AVX-512.
// Layout     x and y row-major or both channels-last, without gaps. Weights of the checkpoint are packed once into
//            oneDNN's blocks; others are converted in every run.
// Alignment  that of the dtype.
// Bytes      (x + weight + bias + y) * size
// FLOPs      2 * b * o * oh * ow * c * kh * kw + one an output for the bias
//
// Tried: on row-major images oneDNN's gemm (im2col) is slower than its blocked kernels, conversion of both images
// included. Only with AVX-512, and where a filter holds few elements or is 1x1, is the gemm faster, because then the
// conversions weigh more than the product. Channels-last images need no conversion and beat both.

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu_kernels.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

using onednn::Call;

constexpr std::size_t kScratchAlignment = 64;
/// Filters up to this size run faster as a gemm on row-major images, where there is AVX-512.
constexpr std::int64_t kGemmFilter = 36;

using ConvolutionDesc = dnnl::convolution_forward::primitive_desc;

dnnl::memory::desc dense_desc(const TensorType& type) { return onednn::describe(dense_operand(type)); }

bool is_weight(const OpSpec& spec) { return spec.is_weight.size() > 1 && spec.is_weight[1]; }

/// Whether images are convolved as they lie.
bool keeps_layout(const OpSpec& spec, const Target& target) {
  if (spec.inputs[0].layout == Layout::kChannelsLast) return true;
  const Shape& weight = spec.inputs[1].shape;  // [o, c, kh, kw]
  const bool pointwise = weight[2] * weight[3] == 1;
  return target.cpu_isa >= CpuIsa::kAvx512 && (pointwise || weight[1] * weight[2] * weight[3] <= kGemmFilter);
}

ConvolutionDesc make_convolution(const OpSpec& spec, const Target& target) {
  const auto image = [&](const TensorType& type) {
    return keeps_layout(spec, target) ? dense_desc(type) : onednn::describe_any(type.dtype, type.shape);
  };
  const dnnl::memory::dims strides(2, spec.attributes.get_int("stride"));
  const dnnl::memory::dims padding(2, spec.attributes.get_int("padding"));
  const auto weight = onednn::describe_any(spec.inputs[1].dtype, spec.inputs[1].shape);
  return {dnnl::convolution_forward::desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                          image(spec.inputs[0]), weight, dense_desc(spec.inputs[2]),
                                          image(spec.outputs[0]), strides, padding, padding),
          onednn::attributes_with_user_scratch(), onednn::cpu_engine()};
}

/// Scratch handed out piece by piece while a kernel is prepared.
class ScratchPlan {
 public:
  /// The offset of a new piece.
  [[nodiscard]] std::size_t take(std::size_t bytes) {
    const std::size_t offset = total_;
    total_ += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    return offset;
  }
  [[nodiscard]] std::size_t total() const noexcept { return total_; }

 private:
  std::size_t total_ = 0;
};

/// The reorder of one operand between the caller's layout and oneDNN's; the copy lies in scratch.
struct Conversion {
  std::unique_ptr<Call> call;
  std::size_t copy_offset;
  std::size_t scratch_offset;

  void run(const void* from, void* to, std::byte* scratch) const {
    call->run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratch + scratch_offset}});
  }
};

/// Nothing where the layouts are equal.
std::optional<Conversion> plan_conversion(const dnnl::memory::desc& from, const dnnl::memory::desc& to, int threads,
                                          ScratchPlan& scratch) {
  if (from == to) return std::nullopt;
  const dnnl::reorder::primitive_desc reorder(onednn::cpu_engine(), from, onednn::cpu_engine(), to,
                                              onednn::attributes_with_user_scratch());
  const dnnl::memory::desc own = reorder.scratchpad_desc();
  const std::size_t copy_bytes = std::max(from.get_size(), to.get_size());  // one of them is the copy
  return Conversion{
      .call = std::make_unique<Call>(dnnl::reorder(reorder), threads,
                                     std::initializer_list<std::pair<int, dnnl::memory::desc>>{
                                         {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, own}}),
      .copy_offset = scratch.take(copy_bytes),
      .scratch_offset = scratch.take(own.get_size())};
}

class PreparedConv2d final : public PreparedKernel {
 public:
  PreparedConv2d(const OpSpec& spec, const ConvolutionDesc& convolution, int threads)
      : dense_weight_(dense_desc(spec.inputs[1])),
        weight_(convolution.weights_desc()),
        implementation_(convolution.impl_info_str()),
        call_(dnnl::convolution_forward(convolution), threads,
              {{DNNL_ARG_SRC, convolution.src_desc()},
               {DNNL_ARG_WEIGHTS, weight_},
               {DNNL_ARG_BIAS, convolution.bias_desc()},
               {DNNL_ARG_DST, convolution.dst_desc()},
               {DNNL_ARG_SCRATCHPAD, convolution.scratchpad_desc()}}) {
    ScratchPlan scratch;
    call_scratch_ = scratch.take(convolution.scratchpad_desc().get_size());
    x_ = plan_conversion(dense_desc(spec.inputs[0]), convolution.src_desc(), threads, scratch);
    y_ = plan_conversion(convolution.dst_desc(), dense_desc(spec.outputs[0]), threads, scratch);
    if (is_weight(spec) && weight_ != dense_weight_)
      packed_.push_back({1, onednn::layout_name(weight_), weight_.get_size()});
    else
      converted_weight_ = plan_conversion(dense_weight_, weight_, threads, scratch);
    scratch_bytes_ = scratch.total();
  }

  [[nodiscard]] std::size_t scratch_bytes() const override { return scratch_bytes_; }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
  [[nodiscard]] std::string implementation() const override { return implementation_; }

  void pack(Stream& /*stream*/, std::size_t index, const void* dense, void* packed) const override {
    HR_CHECK_LT(index, packed_.size());
    onednn::checked("onednn.conv2d", [&] { onednn::convert_layout(dense_weight_, dense, weight_, packed); });
  }

  void launch(const LaunchArguments& arguments) const override {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const void* x = arguments.inputs[0];
    const void* weight = arguments.inputs[1];
    void* y = arguments.outputs[0];
    const auto convert_input = [&](const std::optional<Conversion>& conversion, const void*& operand) {
      if (!conversion) return;
      conversion->run(operand, scratch + conversion->copy_offset, scratch);
      operand = scratch + conversion->copy_offset;
    };
    convert_input(x_, x);
    convert_input(converted_weight_, weight);
    if (y_) y = scratch + y_->copy_offset;
    call_.run({{DNNL_ARG_SRC, x},
               {DNNL_ARG_WEIGHTS, weight},
               {DNNL_ARG_BIAS, arguments.inputs[2]},
               {DNNL_ARG_DST, y},
               {DNNL_ARG_SCRATCHPAD, scratch + call_scratch_}});
    if (y_) y_->run(y, arguments.outputs[0], scratch);
  }

 private:
  dnnl::memory::desc dense_weight_;
  dnnl::memory::desc weight_;
  std::vector<PackedWeight> packed_;
  std::string implementation_;
  Call call_;
  std::size_t call_scratch_ = 0;
  std::optional<Conversion> x_, y_, converted_weight_;
  std::size_t scratch_bytes_ = 0;
};

class OnednnConv2d final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "onednn.conv2d"; }
  [[nodiscard]] Op op() const override { return Op::kConv2d; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(op(), DeviceKind::kCpu, spec, target)) return rejection;
    for (const TensorType& input : spec.inputs)
      if (Support rejection = onednn::check_dtype(input.dtype, target)) return rejection;
    if (spec.inputs[1].layout != Layout::kRowMajor) return Rejection{"takes row-major weights only"};
    if (Support rejection = onednn::check_sizes(spec)) return rejection;
    const onednn::TeamSize team(target.threads);
    return onednn::find_fast_implementation([&] { return make_convolution(spec, target); });
  }

  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return spec.inputs[0].dtype; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    for (const Operand& input : inputs) HR_CHECK(is_dense(input));
    HR_CHECK(is_dense(outputs[0]));
    const onednn::TeamSize team(target.threads);
    return onednn::checked(
        name(), [&] { return std::make_unique<PreparedConv2d>(spec, make_convolution(spec, target), target.threads); });
  }
};

}  // namespace

const Kernel& onednn_conv2d() {
  static const OnednnConv2d kernel;
  return kernel;
}

}  // namespace headroom
