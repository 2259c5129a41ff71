#pragma once

// For x86 with AMX, in files that name their attributes: GEMMs of rows with packed weights, block by block. The sums
// of 32 rows by 32 columns fill four tiles. The vector unit applies the epilogue to them from 4 KB of the
// first-level cache as soon as they are computed. Rows are split into pieces, and each piece reads all weights: they
// must fit in the second-level cache.

#if defined(__x86_64__)
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/tensors/divide_up.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/written_kernel.hpp"
#include "kernels/matmul/amx_tile_shape_inl.hpp"
#include "kernels/matmul/linear_rows.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bf16")
namespace headroom::amx {

using Bits = std::uint16_t;  // of a bf16

/// Writes 32 results.
[[gnu::always_inline]] inline void store_pair(__m512 first, __m512 second, Bits* to) {
  const __m512bh packed = _mm512_cvtne2ps_pbh(second, first);
  __m512i bits;
  std::memcpy(&bits, &packed, sizeof bits);
  _mm512_storeu_si512(to, bits);
}
[[gnu::always_inline]] inline void store_pair(__m512 first, __m512 second, float* to) {
  _mm512_storeu_ps(to, first);
  _mm512_storeu_ps(to + 16, second);
}

}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16,amx-int8")
namespace headroom::amx {

inline constexpr std::int64_t kBlock = 32;      ///< rows and columns of a block
inline constexpr std::int64_t kPieceRows = 64;  ///< two blocks
inline constexpr std::int64_t kBlockSums = kBlock * kBlock;

/// For bf16 (as its bits) or i8: elements of a tile, of its depth, and those that one instruction step multiplies
/// together.
template <class T>
inline constexpr std::int64_t kTile = 1024 / sizeof(T);
template <class T>
inline constexpr std::int64_t kStep = 64 / sizeof(T);
template <class T>
inline constexpr std::int64_t kTogether = 4 / sizeof(T);

/// The parameters that all pieces of a GEMM share.
template <class T>
struct Gemm {
  std::int64_t n, k;
  const T* weight;  ///< [n / 32][k / kStep][2] tiles of [kStep / kTogether][16 columns][kTogether]
};

/// Scratch of one thread: a block of sums, and the rows of a last block.
template <class T>
[[nodiscard]] std::int64_t thread_bytes(std::int64_t k) {
  return kBlockSums * 4 + kBlock * k * static_cast<std::int64_t>(sizeof(T));
}

template <class T>
void pack_weight(std::int64_t n, std::int64_t k, const T* dense, T* packed) {
  constexpr std::int64_t kQuads = kTogether<T>;
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t tile = (j / kBlock * (k / kStep<T>)+i / kStep<T>)*2 + j % kBlock / 16;
      packed[tile * kTile<T> + i % kStep<T> / kQuads * 16 * kQuads + j % 16 * kQuads + i % kQuads] = dense[j * k + i];
    }
}

/// Tiles 0 to 3 += tiles 4 and 5 times tiles 6 and 7.
template <class T>
[[gnu::always_inline]] inline void multiply_tiles() {
  if constexpr (sizeof(T) == 1) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  } else {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

/// Writes the sums, f32 or i32, of 32 rows of x by the columns of `weight`.
template <class T>
[[gnu::always_inline]] inline void multiply_block(std::int64_t k, const T* x, std::int64_t x_stride, const T* weight,
                                                  void* sums) {
  const std::int64_t row_bytes = x_stride * static_cast<std::int64_t>(sizeof(T));
  order_memory();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t step = 0; step < k / kStep<T>; ++step) {
    _tile_loadd(6, weight + step * 2 * kTile<T>, 64);
    _tile_loadd(4, x + step * kStep<T>, row_bytes);
    _tile_loadd(7, weight + (step * 2 + 1) * kTile<T>, 64);
    _tile_loadd(5, x + step * kStep<T> + 16 * x_stride, row_bytes);
    multiply_tiles<T>();
  }
  auto* const to = static_cast<std::byte*>(sums);
  _tile_stored(0, to, 4 * kBlock);
  _tile_stored(1, to + 64, 4 * kBlock);
  _tile_stored(2, to + 16 * 4 * kBlock, 4 * kBlock);
  _tile_stored(3, to + 16 * 4 * kBlock + 64, 4 * kBlock);
  order_memory();
}

/// A block of a GEMM's results.
struct Block {
  RowPlan::Offsets at;  ///< where its first row begins in x and in y
  std::int64_t rows;    ///< that count, of 32
  std::int64_t column;  ///< its first
};

[[nodiscard]] inline std::int64_t count_pieces(const RowPlan& rows) {
  return rows.count() * divide_up(rows.rows.extent, kPieceRows);
}

/// Computes pieces [begin, end), and calls finish(block, sums) after each block, with its sums[32, 32]. Scratch is
/// the thread's, of thread_bytes().
template <class T, class F>
void multiply_pieces(const Gemm<T>& gemm, const RowPlan& rows, std::int64_t begin, std::int64_t end, const T* x,
                     std::byte* scratch, const F& finish) {
  const TileShape shape;
  auto* const last_rows = reinterpret_cast<T*>(scratch + kBlockSums * 4);
  const std::int64_t pieces = divide_up(rows.rows.extent, kPieceRows);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t first = i % pieces * kPieceRows;
    const std::int64_t count = std::min(kPieceRows, rows.rows.extent - first);
    RowPlan::Offsets at = rows.offsets(i / pieces);
    at.x += first * rows.rows.x_stride;
    at.y += first * rows.rows.y_stride;
    const T* const from = x + at.x;
    // Rows after the last are arbitrary: their sums are not read.
    for (std::int64_t row = count / kBlock * kBlock; row < count; ++row)
      std::copy_n(from + row * rows.rows.x_stride, gemm.k, last_rows + row % kBlock * gemm.k);
    for (std::int64_t column = 0; column < gemm.n; column += kBlock)
      for (std::int64_t row = 0; row < count; row += kBlock) {
        const bool whole = count - row >= kBlock;
        multiply_block(gemm.k, whole ? from + row * rows.rows.x_stride : last_rows, whole ? rows.rows.x_stride : gemm.k,
                       gemm.weight + column * gemm.k, scratch);
        finish(Block{.at = {at.x + row * rows.rows.x_stride, at.y + row * rows.rows.y_stride},
                     .rows = std::min(kBlock, count - row),
                     .column = column},
               scratch);
      }
  }
}

}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

namespace headroom::amx {

/// The plan of a GEMM with input `weight`, which is packed. `launch(arguments, rows, run)` calls run(finish), and
/// multiply_pieces() then applies finish to the sums.
template <class T, class Launch>
[[nodiscard]] KernelPlan plan_gemm(const KernelBinding& binding, int weight, const Launch& launch) {
  const Shape& shape = binding.spec.inputs[static_cast<std::size_t>(weight)].shape;
  const std::int64_t n = shape[0], k = shape[1], bytes = thread_bytes<T>(k);
  const int threads = binding.threads;
  const auto run_all = [=, rows = plan_rows(binding.inputs[0], binding.outputs[0])](const LaunchArguments& arguments) {
    const auto* const x = arguments.input<T>(0);
    const Gemm<T> gemm{n, k, arguments.input<T>(static_cast<std::size_t>(weight))};
    launch(arguments, rows, [&](const auto& finish) {
      parallel_for(threads, count_pieces(rows), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
        std::byte* const scratch = arguments.scratch_memory<std::byte>() + thread * bytes;
        multiply_pieces(gemm, rows, begin, end, x, scratch, finish);
      });
    });
  };
  return {.launch = run_all,
          .scratch_bytes = static_cast<std::size_t>(threads * bytes),
          .implementation = sizeof(T) == 1 ? "intrinsics:amx_int8" : "intrinsics:amx_bf16",
          .packed = {{weight, "amx_tiles", static_cast<std::size_t>(n * k) * sizeof(T)}},
          .pack = [=](Stream& /*stream*/, DevicePointer dense, DevicePointer packed) {
            pack_weight(n, k, dense.address<const T>(), packed.address<T>());
          }};
}

}  // namespace headroom::amx

#endif
