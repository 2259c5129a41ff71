// max_pool2d: y[b, c, i, j] = max over u, v < window of x[b, c, i * window + u, j * window + v]
//
// Shapes     x[b, c, h, w] -> y[b, c, h / window, w / window], rounded down: rows and columns that fill no window are
//            left out.
// Dtypes     f32; bf16 where the CPU has AVX-512. Exact in both.
// Layout     x and y row-major or both channels-last, without gaps.
// Alignment  that of the dtype.
// Bytes      (x + y) * size
// FLOPs      one comparison an element of x

#include <memory>

#include "kernels/cpu_kernels.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

using PoolingDesc = dnnl::pooling_forward::primitive_desc;

PoolingDesc make_pooling(const OpSpec& spec) {
  const dnnl::memory::dims window(2, spec.attributes.get_int("window"));
  const dnnl::memory::dims no_padding(2, 0);
  return {dnnl::pooling_forward::desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max,
                                      onednn::describe(dense_operand(spec.inputs[0])),
                                      onednn::describe(dense_operand(spec.outputs[0])), window, window, no_padding,
                                      no_padding),
          onednn::attributes_with_user_scratch(), onednn::cpu_engine()};
}

class PreparedMaxPool2d final : public PreparedKernel {
 public:
  PreparedMaxPool2d(const PoolingDesc& pooling, int threads)
      : implementation_(pooling.impl_info_str()),
        scratch_bytes_(pooling.scratchpad_desc().get_size()),
        call_(dnnl::pooling_forward(pooling), threads,
              {{DNNL_ARG_SRC, pooling.src_desc()},
               {DNNL_ARG_DST, pooling.dst_desc()},
               {DNNL_ARG_SCRATCHPAD, pooling.scratchpad_desc()}}) {}

  [[nodiscard]] std::size_t scratch_bytes() const override { return scratch_bytes_; }
  [[nodiscard]] std::string implementation() const override { return implementation_; }
  void launch(const LaunchArguments& arguments) const override {
    call_.run({{DNNL_ARG_SRC, arguments.inputs[0]},
               {DNNL_ARG_DST, arguments.outputs[0]},
               {DNNL_ARG_SCRATCHPAD, arguments.scratch}});
  }

 private:
  std::string implementation_;
  std::size_t scratch_bytes_;
  onednn::Call call_;
};

class OnednnMaxPool2d final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "onednn.max_pool2d"; }
  [[nodiscard]] Op op() const override { return Op::kMaxPool2d; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(op(), DeviceKind::kCpu, spec, target)) return rejection;
    if (Support rejection = onednn::check_dtype(spec.inputs[0].dtype, target)) return rejection;
    if (spec.inputs[0].shape.numel() == 0) return Rejection{"an operand has no elements"};
    const onednn::TeamSize team(target.threads);
    return onednn::find_fast_implementation([&] { return make_pooling(spec); });
  }

  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return spec.inputs[0].dtype; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    HR_CHECK(is_dense(inputs[0]) && is_dense(outputs[0]));
    const onednn::TeamSize team(target.threads);
    return onednn::checked(name(),
                           [&] { return std::make_unique<PreparedMaxPool2d>(make_pooling(spec), target.threads); });
  }
};

}  // namespace

const Kernel& onednn_max_pool2d() {
  static const OnednnMaxPool2d kernel;
  return kernel;
}

}  // namespace headroom
