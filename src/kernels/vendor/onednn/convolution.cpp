#include "kernels/vendor/onednn/convolution.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/vendor/onednn/relu.hpp"

namespace headroom::onednn {
namespace {

/// A conversion of one operand; without a call there is none to make.
struct Reorder {
  std::shared_ptr<const Call> call = nullptr;
  std::size_t copy_offset = 0;  // in the scratch, of the operand in oneDNN's layout
  std::size_t scratch_offset = 0;

  void run(const void* from, void* to, std::byte* scratch) const {
    call->run({.src = from, .dst = to, .scratch = scratch + scratch_offset});
  }
  /// The address of an input for oneDNN: its copy, made now, or the input itself.
  [[nodiscard]] const void* of_input(const void* input, std::byte* scratch) const {
    if (call == nullptr) return input;
    run(input, scratch + copy_offset, scratch);
    return scratch + copy_offset;
  }
};

/// oneDNN (2.6.3) counts pixels times its blocks of 16 channels in an int. If that overflows it divides by zero or
/// searches for minutes.
constexpr std::int64_t kMostPixels = std::numeric_limits<std::int32_t>::max() / 16;

enum class Copy : std::uint8_t { kNone, kInScratch };

/// Makes reorders, and hands out the scratch that they and the primitive use.
class Staging {
 public:
  explicit Staging(int threads) : threads_(threads) {}

  std::size_t take(std::size_t bytes) { return std::exchange(bytes_, bytes_ + whole_lines(bytes)); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  Reorder make(const dnnl::memory::desc& from, const dnnl::memory::desc& to, Copy copy) {
    const dnnl::reorder::primitive_desc reorder(cpu_engine(), from, cpu_engine(), to, attributes_with_user_scratch());
    const std::size_t copied = copy == Copy::kNone ? 0 : std::max(from.get_size(), to.get_size());
    return {.call = std::make_shared<const Call>(reorder, threads_),
            .copy_offset = take(copied),
            .scratch_offset = take(reorder.scratchpad_desc().get_size())};
  }
  Reorder make_unless_equal(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
    return from == to ? Reorder{} : make(from, to, Copy::kInScratch);
  }

 private:
  int threads_;
  std::size_t bytes_ = 0;
};

}  // namespace

dnnl::memory::desc describe_image(const TensorType& type, ImageLayout layout) {
  return layout == ImageLayout::kGiven ? describe(dense_operand(type)) : describe_any(type.dtype, type.shape);
}

dnnl::memory::desc describe_filter(const TensorType& weight, std::int64_t groups, bool is_transposed) {
  const Shape& shape = weight.shape;  // [o, i/groups, kh, kw], transposed [i, o/groups, kh, kw]
  const Shape dense = row_major_strides(shape);
  const int out = is_transposed ? 1 : 0, in = is_transposed ? 0 : 1;
  const std::int64_t rows = shape[0] / groups;  // of a group, along the axis that groups share
  const std::int64_t o = is_transposed ? shape[1] : rows, i = is_transposed ? rows : shape[1];
  if (groups == 1)
    return describe(weight.dtype, Shape{o, i, shape[2], shape[3]}, Shape{dense[out], dense[in], dense[2], dense[3]});
  return describe(weight.dtype, Shape{groups, o, i, shape[2], shape[3]},
                  Shape{rows * dense[0], dense[out], dense[in], dense[2], dense[3]});
}

dnnl::memory::desc any_layout_of(const dnnl::memory::desc& desc) {
  return {desc.dims(), desc.data_type(), dnnl::memory::format_tag::any};
}

Window window_of(const Builder::Convolution& how) {
  return {.strides = {how.stride[0], how.stride[1]},
          .dilates = {how.dilation[0] - 1, how.dilation[1] - 1},
          .padding_before = {how.padding[0], how.padding[1]},
          .padding_after = {how.padding[2], how.padding[3]}};
}

dnnl::primitive_desc_base choose_convolution(ImageLayout preferred, const MakeConvolution& make) {
  dnnl::primitive_desc_base first = make(preferred);
  if (first && !is_reference(first.impl_info_str())) return first;
  dnnl::primitive_desc_base other = make(preferred == ImageLayout::kGiven ? ImageLayout::kBest : ImageLayout::kGiven);
  return other ? other : first;
}

Support check_convolution(const OpSpec& spec, const Target& target) {
  for (const TensorType& input : spec.inputs)
    if (Support rejection = check_dtype(input.dtype, target)) return rejection;
  if (spec.input(Role::kWeight).layout != Layout::kRowMajor) return Rejection{"takes row-major weights only"};
  for (const Shape& image : {spec.input(Role::kX).shape, spec.outputs[0].shape})
    if (image[2] * image[3] > kMostPixels)
      return Rejection{
          fmt::format("oneDNN takes images of at most {} pixels, not {} x {}", kMostPixels, image[2], image[3])};
  return check_sizes(spec);
}

KernelPlan plan_convolution(const KernelBinding& binding, const dnnl::primitive_desc_base& convolution,
                            const dnnl::memory::desc& filter) {
  const OpSpec& spec = binding.spec;
  const auto desc_of = [&](dnnl::query which) { return convolution.query_md(which, 0); };
  const dnnl::memory::desc x_given = describe_image(spec.input(Role::kX), ImageLayout::kGiven);
  const dnnl::memory::desc y_given = describe_image(spec.outputs[0], ImageLayout::kGiven);
  const dnnl::memory::desc y_made = desc_of(dnnl::query::dst_md);
  Staging staging(binding.threads);
  KernelPlan made{.launch = {}, .implementation = convolution.impl_info_str()};
  const auto call = std::make_shared<const Call>(convolution, binding.threads);
  const std::size_t call_offset = staging.take(convolution.scratchpad_desc().get_size());
  const Reorder x = staging.make_unless_equal(x_given, desc_of(dnnl::query::src_md));
  const Reorder y = staging.make_unless_equal(y_made, y_given);
  const std::size_t x_at = position_of(spec.op, Role::kX), weight_at = position_of(spec.op, Role::kWeight);
  std::optional<std::size_t> bias_at, residual_at;
  if (spec.has(Role::kBias)) bias_at = position_of(spec.op, Role::kBias);
  if (spec.attributes.epilogue_operands() > 0) residual_at = spec.own_operands();
  const Reorder residual = residual_at ? staging.make(y_given, y_made, Copy::kNone) : Reorder{};
  Reorder weight;
  if (spec.has_weight_at(weight_at))
    pack_weight(made, static_cast<int>(weight_at), filter, desc_of(dnnl::query::weights_md));
  else
    weight = staging.make_unless_equal(filter, desc_of(dnnl::query::weights_md));
  made.scratch_bytes = staging.bytes();
  const bool has_relu = form_of(spec.attributes[attr::kEpilogue])->activation == Activation::kRelu;
  const DType dtype = spec.outputs[0].dtype;
  const auto elements = static_cast<std::int64_t>(y_made.get_size() / size_of(dtype));
  if (has_relu) made.implementation += " + relu";
  made.launch = [=, threads = binding.threads](const LaunchArguments& arguments) {
    auto* const scratch = arguments.scratch_memory<std::byte>();
    const void* const from = x.of_input(arguments.input(x_at), scratch);
    void* const to = y.call ? scratch + y.copy_offset : arguments.output(0);
    if (residual_at && arguments.input(*residual_at) != to) residual.run(arguments.input(*residual_at), to, scratch);
    call->run({.src = from,
               .weights = weight.of_input(arguments.input(weight_at), scratch),
               .bias = bias_at ? arguments.input(*bias_at) : nullptr,
               .dst = to,
               .scratch = scratch + call_offset});
    if (has_relu) relu_in_place(dtype, to, elements, threads);
    if (y.call) y.run(to, arguments.output(0), scratch);
  };
  return made;
}

}  // namespace headroom::onednn
