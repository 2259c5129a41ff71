// max_pool2d: y[b, c, i, j] = max over u, v < window of x[b, c, i * window + u, j * window + v]; avg_pool2d: their mean
//
// Shapes     x[b, c, h, w] -> y[b, c, h / window, w / window], rounded down: rows and columns that fill no window are
//            left out.
// Dtypes     f32; bf16, of which means need AVX-512 and have sums in f32. Maxima are exact in both.
// Layout     x and y row-major or both channels-last, without gaps.
// Alignment  that of the dtype.
// Bytes      (x + y) * size
// FLOPs      one comparison or addition an element of x
//
// Means are oneDNN's. Its maxima ignore NaN, so maxima are implemented here; for channels-last images the compiler
// vectorizes the loop over channels.

#include <cmath>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/stored_bf16.hpp"
#include "kernels/image/planes.hpp"
#include "kernels/vendor/onednn/engine.hpp"

namespace headroom {
namespace {

/// Row `row` of y, from the first of its rows of x on.
template <class T>
void max_row(const Planes& from, const Planes& to, std::int64_t window, const T* x, T* y) {
  for (std::int64_t column = 0; column < to.width; ++column, y += to.inner) {
    const T* const first = x + column * window * to.inner;
    for (std::int64_t u = 0; u < window; ++u)
      for (std::int64_t v = 0; v < window; ++v) {
        const T* const next = first + (u * from.width + v) * to.inner;
        for (std::int64_t i = 0; i < to.inner; ++i) {
          const float most = load(y[i]), one = load(next[i]);
          const bool takes = u + v == 0 || one > most || std::isnan(one);  // NaN stays: nothing is larger
          y[i] = takes ? next[i] : y[i];
        }
      }
  }
}

KernelPlan plan_max(const KernelBinding& binding) {
  const Planes from = planes_of(binding.inputs[0].type), to = planes_of(binding.outputs[0].type);
  const std::int64_t window = binding.spec.attributes[attr::kWindow];
  const bool is_f32 = binding.inputs[0].type.dtype == DType::kF32;
  const std::int64_t x_row = from.width * from.inner, y_row = to.width * to.inner;
  return {[=, threads = binding.threads](const LaunchArguments& arguments) {
    const auto share = [&]<class T>(const T* x, T* y) {
      parallel_for(threads, to.outer * to.height, grain_of(x_row * window),
                   [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       const std::int64_t first = row / to.height * from.height + row % to.height * window;
                       max_row(from, to, window, x + first * x_row, y + row * y_row);
                     }
                   });
    };
    if (is_f32) return share(arguments.input<float>(0), arguments.output<float>(0));
    share(arguments.input<StoredBf16>(0), arguments.output<StoredBf16>(0));
  }};
}

using PoolingDesc = dnnl::pooling_forward::primitive_desc;

PoolingDesc make_pooling(const OpSpec& spec) {
  const dnnl::memory::dims window(2, spec.attributes[attr::kWindow]);
  const dnnl::memory::dims no_padding(2, 0);
  return {dnnl::pooling_forward::desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_avg_exclude_padding,
                                      onednn::describe(dense_operand(spec.inputs[0])),
                                      onednn::describe(dense_operand(spec.outputs[0])), window, window, no_padding,
                                      no_padding),
          onednn::attributes_with_user_scratch(), onednn::cpu_engine()};
}

Support supports_avg_pool2d(const OpSpec& spec, const Target& target) {
  if (Support rejection = onednn::check_dtype(spec.inputs[0].dtype, target)) return rejection;
  return onednn::find_fast_implementation(target, [&] { return make_pooling(spec); });
}

KernelPlan plan_avg_pool2d(const KernelBinding& binding) {
  return onednn::plan_call(make_pooling(binding.spec), binding.threads);
}

}  // namespace

const Kernel& plain_max_pool2d() {
  static const CpuKernel kernel({.name = "plain.max_pool2d",
                                 .op = Op::kMaxPool2d,
                                 .supports = supports_f32_or_bf16,
                                 .strides = StrideRule::kDense,
                                 .plan = plan_max});
  return kernel;
}

const Kernel& onednn_avg_pool2d() {
  static const LibraryKernel kernel({.name = "onednn.avg_pool2d",
                                     .op = Op::kAvgPool2d,
                                     .supports = supports_avg_pool2d,
                                     .strides_output = false,
                                     .plan = onednn::planned<plan_avg_pool2d>});
  return kernel;
}

}  // namespace headroom
