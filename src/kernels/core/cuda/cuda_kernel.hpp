#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/core/cuda/grid_rows.hpp"
#include "kernels/core/row_loop.hpp"
#include "kernels/core/written_kernel.hpp"

namespace headroom::cuda {

/// A kernel for any GPU that the backend takes.
class CudaKernel : public WrittenKernel {
 public:
  explicit CudaKernel(const KernelTraits& traits) : WrittenKernel(DeviceKind::kCuda, traits) {}
};

/// The device that a kernel is prepared on.
[[nodiscard]] Backend& backend_of(const KernelBinding& binding);

/// The addresses of the inputs, for kernels of up to three; null for those that do not exist.
[[nodiscard]] std::array<const void*, 3> input_addresses(const LaunchArguments& arguments);

/// Supported where results and inputs are f32, or bf16 or f16 with inputs of the same or f32.
[[nodiscard]] Support supports_elements(const OpSpec& spec);
/// The same with row-major operands: for kernels that work along the innermost axis.
[[nodiscard]] Support supports_rows(const OpSpec& spec);
/// Supported where rows of f32, bf16 or f16, short enough to be counted in an int, are quantized.
[[nodiscard]] Support supports_quantized_rows(const OpSpec& spec);

/// Strides, broadcast along x[..., k], of a tensor[...] that has one element for each row of x.
[[nodiscard]] Shape one_a_row(Shape strides);

/// The longest row that device code counts in an int.
inline constexpr std::int64_t kMostRowLength = std::int64_t{1} << 30;

/// Whether kernels written here store results in it: f32, bf16 and f16. Arithmetic is in f32.
[[nodiscard]] bool is_element(DType dtype);

/// A row loop in the form that device code takes.
template <std::size_t N>
[[nodiscard]] GridRows<static_cast<int>(N)> to_grid(const RowLoop<N>& loop) {
  HR_CHECK_LE(loop.rank, kMaxGridAxes);
  HR_CHECK_EQ(loop.piece, 0);
  GridRows<static_cast<int>(N)> grid;
  grid.rank = loop.rank;
  grid.rows = loop.rows;
  grid.length = loop.inner.extent;
  for (std::size_t k = 0; k < N; ++k) grid.repeats[k] = loop.inner.strides[k] == 0;
  for (int axis = 0; axis < loop.rank; ++axis) {
    const auto& from = loop.outer[static_cast<std::size_t>(axis)];
    grid.extents[axis] = from.extent;
    for (std::size_t k = 0; k < N; ++k) grid.strides[axis][k] = from.strides[k];
  }
  return grid;
}

/// Rows as long as the operands allow, never cut.
template <std::size_t N>
[[nodiscard]] GridRows<static_cast<int>(N)> longest_grid(const Shape& extents, const std::array<Shape, N>& strides) {
  return to_grid(longest_rows<N>(extents, strides, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace headroom::cuda
