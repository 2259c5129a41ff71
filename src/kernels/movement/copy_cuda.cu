// Strided copies: the kernels of reshape, transpose, concat, slice, row, pad, broadcast and constant on a GPU. Any
// dtype, any strides, 0 in a source that is repeated.
//
// Bytes      read and written once. Runs that are contiguous on both sides are copied in the widest units (16 bytes at
//            most) that divide their length, strides and addresses. The innermost axis of the target varies fastest, so
//            writes are coalesced. Short runs that change the innermost axis go to transposed_copy_cuda.cu. If they do
//            not fit its tiles, reads are a line apart, and the cache must keep the rest of each line. Copies of a
//            megabyte take as long as their launch, so up to four share one launch.

#include <algorithm>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/movement/copy_cuda.hpp"
#include "kernels/movement/transposed_copy_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnits = 4;  // of one thread, all loaded before the first is stored

struct RowChoice {
  const std::int32_t* index = nullptr;  ///< null: the source address is as given
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
};
/// The fill value, repeated for units of any size.
struct alignas(16) Fill {
  std::uint64_t words[2] = {};
};

/// This block's part of a copy.
template <class Unit>
__device__ void copy_units(const GridRows<2>& grid, std::int64_t units_per_row, const Fill& fill, const std::byte* from,
                           std::byte* to, std::int64_t block) {
  Unit values[kUnits];
  std::int64_t targets[kUnits];
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const std::int64_t unit = block * (kThreads * kUnits) + u * kThreads + threadIdx.x;
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
__global__ void __launch_bounds__(kThreads) copy_kernel(GridRows<2> grid, std::int64_t units_per_row, RowChoice choice,
                                                        Fill fill, const std::byte* from, std::byte* to) {
  wait_for_previous();
  if (choice.index != nullptr) {
    const std::int32_t row = *choice.index;
    if (row < 0 || row >= choice.rows) __trap();
    from += row * choice.row_bytes;
  }
  copy_units<Unit>(grid, units_per_row, fill, from, to, blockIdx.x);
}

/// Copies that share a launch, each with blocks of its own.
struct Together {
  static constexpr int kMost = 4;
  struct One {
    GridRows<2> grid;
    std::int64_t units_per_row = 0;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::int64_t first_block = 0;
  };
  One of[kMost];
  int count = 0;
};

template <class Unit>
__global__ void __launch_bounds__(kThreads) copies_kernel(const __grid_constant__ Together copies) {
  wait_for_previous();
  int i = 0;
  while (i + 1 < copies.count && blockIdx.x >= copies.of[i + 1].first_block) ++i;
  const Together::One& one = copies.of[i];
  copy_units<Unit>(one.grid, one.units_per_row, {}, one.from, one.to, blockIdx.x - one.first_block);
}

template <class Unit>
void launch_together(cudaStream_t stream, Together copies) {
  std::int64_t blocks = 0;
  for (int i = 0; i < copies.count; ++i) {
    Together::One& one = copies.of[i];
    one.units_per_row = one.grid.length / static_cast<std::int64_t>(sizeof(Unit));
    one.first_block = blocks;
    blocks += divide_up(one.grid.rows * one.units_per_row, kThreads * kUnits);
  }
  launch_early(copies_kernel<Unit>, {blocks_along_x(blocks), kThreads, stream}, copies);
  check_launched("cuda copy kernel");
}

template <class Unit>
void launch_units(cudaStream_t stream, const CopyRows& rows, const RowChoice& choice, const Fill& fill,
                  const void* from, void* to) {
  const std::int64_t units = rows.grid.length / static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t blocks = divide_up(rows.grid.rows * units, kThreads * kUnits);
  launch_early(copy_kernel<Unit>, {blocks_along_x(blocks), kThreads, stream}, rows.grid, units, choice, fill,
               static_cast<const std::byte*>(from), static_cast<std::byte*>(to));
  check_launched("cuda copy kernel");
}

/// Bytes of the widest unit that fits both sides.
int widest_unit(const CopyRows& rows, const RowChoice& choice, const void* from, const void* to) {
  int unit = from != nullptr && rows.grid.repeats[0] ? rows.element_bytes : 16;
  const auto fits = [&] {
    return rows.grid.length % unit == 0 && choice.row_bytes % unit == 0 &&
           is_aligned(rows.grid, unit, {from, to}, static_cast<std::uintptr_t>(unit));
  };
  while (unit > rows.element_bytes && !fits()) unit /= 2;
  return unit;
}

/// `launch` with a value of the type of that many bytes.
template <class Launch>
void with_unit(int bytes, const Launch& launch) {
  switch (bytes) {
    case 16:
      return launch(uint4{});
    case 8:
      return launch(std::uint64_t{});
    case 4:
      return launch(std::uint32_t{});
    case 2:
      return launch(std::uint16_t{});
    default:
      return launch(std::uint8_t{});
  }
}

bool is_empty(const CopyRows& rows) { return rows.grid.rows * rows.grid.length == 0; }

/// Fills where `from` is null.
void launch(void* stream, const CopyRows& rows, const RowChoice& choice, const Fill& fill, const void* from, void* to) {
  if (is_empty(rows)) return;
  with_unit(widest_unit(rows, choice, from, to), [&](auto unit) {
    launch_units<decltype(unit)>(static_cast<cudaStream_t>(stream), rows, choice, fill, from, to);
  });
}

}  // namespace

void launch_copy(void* stream, const CopyRows& rows, const void* from, void* to) {
  if (!launch_transposed(stream, rows, from, to)) launch(stream, rows, {}, {}, from, to);
}

void launch_copies(void* stream, std::span<const Copy> copies) {
  Together together;
  int bytes = 16;
  const auto launch_those = [&] {
    if (together.count == 0) return;
    with_unit(bytes, [&](auto unit) { launch_together<decltype(unit)>(static_cast<cudaStream_t>(stream), together); });
    together.count = 0;
    bytes = 16;
  };
  for (const Copy& copy : copies) {
    if (is_empty(copy.rows) || launch_transposed(stream, copy.rows, copy.from, copy.to)) continue;
    together.of[together.count++] = {.grid = copy.rows.grid,
                                     .from = static_cast<const std::byte*>(copy.from),
                                     .to = static_cast<std::byte*>(copy.to)};
    bytes = std::min(bytes, widest_unit(copy.rows, {}, copy.from, copy.to));
    if (together.count == Together::kMost) launch_those();
  }
  launch_those();
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
