// resize2d: y[b, c, i, j] = x at the position of pixel i, j in an image of another size
//
// "nearest"   x[b, c, floor(i h / oh), floor(j w / ow)]: rows of y are copied from one row of x.
// "bilinear"  the four elements of x around the centre of the pixel, weighted by their distance.
// Dtypes      f32 or bf16 in memory, f32 arithmetic.
// Layout      row-major or channels-last, without gaps.
// Bytes       y's written, and the rows of x that they come from read; 9 FLOPs an element for bilinear. Images are a
//             small part of any model's time here, so loops are plain and left to the compiler.

#include <cstring>
#include <vector>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/stored_bf16.hpp"
#include "kernels/image/planes.hpp"

namespace headroom {
namespace {

/// One axis of y.
using AxisNeighbours = std::vector<Neighbours>;
AxisNeighbours axis_of(bool is_nearest, std::int64_t extent, std::int64_t size) {
  AxisNeighbours axis;
  for (std::int64_t i = 0; i < size; ++i)
    axis.push_back(is_nearest ? Neighbours{.first = i * extent / size} : neighbours_of(i, extent, size));
  return axis;
}

/// A row of y of elements of any kind, of one row of x.
void copy_row(const AxisNeighbours& across, std::int64_t pixel_bytes, const std::byte* x, std::byte* y) {
  for (const Neighbours& column : across) {
    std::memcpy(y, x + column.first * pixel_bytes, static_cast<std::size_t>(pixel_bytes));
    y += pixel_bytes;
  }
}

/// A row of y between two of x.
template <class T>
void blend_row(const AxisNeighbours& across, std::int64_t inner, const T* above, const T* below, float weight, T* y) {
  const auto blend = [](float a, float b, float of_b) { return (1 - of_b) * a + of_b * b; };
  for (const Neighbours& column : across) {
    const std::int64_t left = column.first * inner, right = column.second * inner;
    for (std::int64_t i = 0; i < inner; ++i, ++y)
      store(y, blend(blend(load(above[left + i]), load(above[right + i]), column.weight),
                     blend(load(below[left + i]), load(below[right + i]), column.weight), weight));
  }
}

KernelPlan plan_resize2d(const KernelBinding& binding) {
  const TensorType &x_type = binding.inputs[0].type, &y_type = binding.outputs[0].type;
  const Planes from = planes_of(x_type), to = planes_of(y_type);
  const bool is_nearest = binding.spec.attributes[attr::kMode] == ResizeMode::kNearest;
  const bool is_f32 = x_type.dtype == DType::kF32;
  const auto size = static_cast<std::int64_t>(size_of(x_type.dtype));
  const AxisNeighbours down = axis_of(is_nearest, from.height, to.height),
                       across = axis_of(is_nearest, from.width, to.width);
  return {[=, threads = binding.threads](const LaunchArguments& arguments) {
    const auto* const x = arguments.input<std::byte>(0);
    auto* const y = arguments.output<std::byte>(0);
    const std::int64_t x_row = from.width * from.inner * size, y_row = to.width * to.inner * size;
    parallel_for(threads, to.outer * to.height, grain_of(to.width * to.inner),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     const Neighbours& at = down[static_cast<std::size_t>(row % to.height)];
                     const std::byte* const plane = x + row / to.height * from.height * x_row;
                     const std::byte *above = plane + at.first * x_row, *below = plane + at.second * x_row;
                     std::byte* const target = y + row * y_row;
                     const auto blend = [&]<class T>(T* to_row) {
                       blend_row(across, to.inner, reinterpret_cast<const T*>(above), reinterpret_cast<const T*>(below),
                                 at.weight, to_row);
                     };
                     if (is_nearest)
                       copy_row(across, to.inner * size, above, target);
                     else if (is_f32)
                       blend(reinterpret_cast<float*>(target));
                     else
                       blend(reinterpret_cast<StoredBf16*>(target));
                   }
                 });
  }};
}

}  // namespace

const Kernel& highway_resize2d() {
  static const CpuKernel kernel({.name = "highway.resize2d",
                                 .op = Op::kResize2d,
                                 .supports = supports_f32_or_bf16,
                                 .strides = StrideRule::kDense,
                                 .plan = plan_resize2d});
  return kernel;
}

}  // namespace headroom
