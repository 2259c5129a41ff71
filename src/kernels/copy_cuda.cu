// Strided copies: what reshape, transpose, concat, slice, row, pad, broadcast and constant do on a GPU. Any dtype, any
// strides, 0 in a source that is repeated.
//
// Bytes      read and written once. Runs that are contiguous on both sides go in the widest units (16 bytes at most)
//            that divide their length, their distances and their addresses; the innermost axis of the target comes
//            last, so writes are coalesced. Short runs that change the innermost axis go to transposed_copy_cuda.cu; where
//            they do not fit its tiles, one is read a line apart from the next, and the cache must keep the rest of the line.

#include "kernels/copy_cuda.hpp"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/transposed_copy_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnits = 4;  // of one thread, all loaded before the first is stored

struct RowChoice {
  const std::int32_t* index = nullptr;  ///< none: the source is where it is said to be
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
};
/// What is written where there is no source, in any unit.
struct alignas(16) Fill {
  std::uint64_t words[2] = {};
};

template <class Unit>
__global__ void __launch_bounds__(kThreads) copy_kernel(GridRows<2> grid, std::int64_t units_per_row, RowChoice choice,
                                                        Fill fill, const std::byte* from, std::byte* to) {
  if (choice.index != nullptr) {
    const std::int32_t row = *choice.index;
    if (row < 0 || row >= choice.rows) __trap();
    from += row * choice.row_bytes;
  }
  Unit values[kUnits];
  std::int64_t targets[kUnits];
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kUnits) + u * kThreads + threadIdx.x;
    const bool is_one_row = grid.rank == 0;
    const Division at = is_one_row ? Division{unit < units_per_row ? 0 : 1, unit} : divide(unit, units_per_row);
    targets[u] = -1;
    if (at.quotient >= grid.rows) continue;
    std::int64_t offsets[2];
    find_row(grid, at.quotient, offsets);
    const std::int64_t column = at.remainder * static_cast<std::int64_t>(sizeof(Unit));
    if (from == nullptr)
      values[u] = *reinterpret_cast<const Unit*>(&fill);
    else
      values[u] = *reinterpret_cast<const Unit*>(from + offsets[0] + (grid.repeats[0] ? 0 : column));
    targets[u] = offsets[1] + column;
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u)
    if (targets[u] >= 0) *reinterpret_cast<Unit*>(to + targets[u]) = values[u];
}

template <class Unit>
void launch_units(cudaStream_t stream, const CopyRows& rows, const RowChoice& choice, const Fill& fill,
                  const void* from, void* to) {
  const std::int64_t units = rows.grid.length / static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t blocks = divide_up(rows.grid.rows * units, kThreads * kUnits);
  copy_kernel<Unit><<<blocks_along_x(blocks), kThreads, 0, stream>>>(
      rows.grid, units, choice, fill, static_cast<const std::byte*>(from), static_cast<std::byte*>(to));
  check_launched("cuda copy kernel");
}

/// Fills where `from` is null.
void launch(void* stream, const CopyRows& rows, const RowChoice& choice, const Fill& fill, const void* from, void* to) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  auto* const on = static_cast<cudaStream_t>(stream);
  int unit = from != nullptr && rows.grid.repeats[0] ? rows.element_bytes : 16;
  const auto fits = [&] {
    return rows.grid.length % unit == 0 && choice.row_bytes % unit == 0 &&
           is_aligned(rows.grid, unit, {from, to}, static_cast<std::uintptr_t>(unit));
  };
  while (unit > rows.element_bytes && !fits()) unit /= 2;
  switch (unit) {
    case 16:
      return launch_units<uint4>(on, rows, choice, fill, from, to);
    case 8:
      return launch_units<std::uint64_t>(on, rows, choice, fill, from, to);
    case 4:
      return launch_units<std::uint32_t>(on, rows, choice, fill, from, to);
    case 2:
      return launch_units<std::uint16_t>(on, rows, choice, fill, from, to);
    default:
      return launch_units<std::uint8_t>(on, rows, choice, fill, from, to);
  }
}

}  // namespace

void launch_copy(void* stream, const CopyRows& rows, const void* from, void* to) {
  if (!launch_transposed(stream, rows, from, to)) launch(stream, rows, {}, {}, from, to);
}

void launch_fill(void* stream, const CopyRows& rows, std::uint64_t value, void* to) {
  for (int bytes = rows.element_bytes; bytes < 8; bytes *= 2)
    value = (value & ((std::uint64_t{1} << (8 * bytes)) - 1)) * ((std::uint64_t{1} << (8 * bytes)) + 1);
  launch(stream, rows, {}, {{value, value}}, nullptr, to);
}

void copy_to_device(void* stream, const void* from, void* to, std::size_t bytes) {
  const auto on = static_cast<cudaStream_t>(stream);
  if (cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, on) == cudaSuccess) return;
  check_launched("cuda copy to the device");
}

void launch_copy_row(void* stream, const CopyRows& rows, const void* table, const std::int32_t* index,
                     std::int64_t table_rows, std::int64_t row_bytes, void* to) {
  launch(stream, rows, {index, table_rows, row_bytes}, {}, table, to);
}

}  // namespace headroom::cuda
