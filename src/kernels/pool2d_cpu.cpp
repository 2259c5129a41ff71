// max_pool2d: y[b, c, i, j] = max over u, v < window of x[b, c, i * window + u, j * window + v]; avg_pool2d: their mean
//
// Shapes     x[b, c, h, w] -> y[b, c, h / window, w / window], rounded down: rows and columns that fill no window are
//            left out.
// Dtypes     f32; bf16 where the CPU has AVX-512, with sums in f32. Maxima are exact in both.
// Layout     x and y row-major or both channels-last, without gaps.
// Alignment  that of the dtype.
// Bytes      (x + y) * size
// FLOPs      one comparison or addition an element of x

#include "kernels/onednn/engine.hpp"

namespace headroom {
namespace {

using PoolingDesc = dnnl::pooling_forward::primitive_desc;

PoolingDesc make_pooling(const OpSpec& spec) {
  const auto how =
      spec.op == Op::kMaxPool2d ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_exclude_padding;
  const dnnl::memory::dims window(2, spec.attributes.get_int("window"));
  const dnnl::memory::dims no_padding(2, 0);
  return {dnnl::pooling_forward::desc(
              dnnl::prop_kind::forward_inference, how, onednn::describe(dense_operand(spec.inputs[0])),
              onednn::describe(dense_operand(spec.outputs[0])), window, window, no_padding, no_padding),
          onednn::attributes_with_user_scratch(), onednn::cpu_engine()};
}

Support supports(const OpSpec& spec, const Target& target) {
  if (Support rejection = onednn::check_dtype(spec.inputs[0].dtype, target)) return rejection;
  return onednn::find_fast_implementation(target, [&] { return make_pooling(spec); });
}

KernelPlan plan(const KernelBinding& binding) { return onednn::plan_call(make_pooling(binding.spec), binding.threads); }

const Listed<LibraryKernel> kMaxPool2d({.name = "onednn.max_pool2d",
                                        .op = Op::kMaxPool2d,
                                        .supports = supports,
                                        .strides_output = false,
                                        .plan = onednn::planned<plan>});
const Listed<LibraryKernel> kAvgPool2d({.name = "onednn.avg_pool2d",
                                        .op = Op::kAvgPool2d,
                                        .supports = supports,
                                        .strides_output = false,
                                        .plan = onednn::planned<plan>});

}  // namespace
}  // namespace headroom
