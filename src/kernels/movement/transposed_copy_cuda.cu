// Strided copies that change the innermost axis: pixels and channels, pixels of patches and patches, rows and
// columns.
//
// Units      of 1, 2, 4 or 8 bytes: a run that is contiguous on both sides, one element or several.
// Bytes      read and written once, in packs. Units are contiguous in the source along the axis `along`, and in the
//            target along the axis `across`. A thread takes a tile of both: for each index across it reads a pack
//            along, transposes the tile in registers, and writes packs.
//
// If one of the two axes is short (2, 3, 4 or 8 units) and contiguous with the next axis, a tile covers all of the
// short axis. Its packs on that side are then contiguous in memory: pixels of 2x2 patches or of three colours.
// Threads are neighbours along the other axis, and both sides are accessed as by a plain copy. Otherwise tiles are
// squares as wide as a pack, and a warp has 8 by 4 of them, so that it reads whole lines and writes whole sectors.
//
// If the short axis has 2 units, a tile is 32 bytes, so that accesses on both sides have 16 bytes. On the contiguous
// side a thread would write every other 16 bytes, half a sector, at a time. Two neighbouring lanes therefore
// exchange halves, and each access covers whole sectors.
//
// An earlier version moved one unit at a time: 0.08 of a copy's rate for bf16 pixels of 2x2 patches, 0.16 in f32
// (H200). Tiles of 16 bytes, four per thread, with 8-byte accesses on the other side, reached 0.97 of PyTorch's
// kernel in f32, and 0.88 with one tile per thread (8 MB). Blocks of 128 threads and writes that bypass the
// first-level cache for pairs save 0.4% of the time at 512 MiB and 2% at 64 MiB, compared with 256 threads and plain
// writes.

#include <optional>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/movement/transposed_copy_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPairThreads = 128;   // if two lanes exchange halves
constexpr int kBytesInFlight = 64;  // of a thread, at least: tiles are read before the first is written
constexpr std::int64_t kFewTiles = std::int64_t{1} << 20;  // so that there are threads for all of a GPU: one for each
constexpr std::int64_t kMostTiles =
    (std::int64_t{1} << 31) - (1 << 16);  // the limit of Divisor, less the excess of a last block

/// Divides numbers below 2^31 by a constant: a multiplication and a shift (Granlund and Montgomery 1994). Three
/// divisions for each 16 bytes took a quarter of the time.
struct Divisor {
  std::uint32_t divisor = 1, multiplier = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(std::int64_t by) : divisor(static_cast<std::uint32_t>(by)) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<std::uint32_t>(((((std::uint64_t{1} << shift) - divisor) << 32) / divisor) + 1);
  }
  __device__ __forceinline__ std::uint32_t divide(std::uint32_t number, std::uint32_t& remainder) const {
    const std::uint32_t quotient = (__umulhi(number, multiplier) + number) >> shift;
    remainder = number - quotient * divisor;
    return quotient;
  }
};

/// Strides in bytes; those of the two axes are the unit's size in the source (along) and in the target (across).
struct Transposition {
  struct Axis {
    Divisor extent;
    std::int64_t from_stride = 0, to_stride = 0;
  };
  int rank = 0;  ///< of the other axes
  Axis outer[kMaxGridAxes];
  std::uint32_t tiles = 0;              ///< in all; of squares those of whole warps
  std::uint32_t along = 1, across = 1;  ///< extents in tiles
  Divisor of_row, of_line;  ///< tiles for each place of the other axes, or a warp's squares of these; and of a line
  std::int64_t along_stride = 0, across_stride = 0;  ///< of the other side: along in the target, across in the source
};

template <int kBytes>
__device__ __forceinline__ void read_words(std::uint32_t* words, const std::byte* from) {
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 part = reinterpret_cast<const uint4*>(from)[i];
      words[4 * i] = part.x, words[4 * i + 1] = part.y, words[4 * i + 2] = part.z, words[4 * i + 3] = part.w;
    }
  } else if constexpr (kBytes == 8) {
    const uint2 part = *reinterpret_cast<const uint2*>(from);
    words[0] = part.x, words[1] = part.y;
  } else if constexpr (kBytes == 4) {
    words[0] = *reinterpret_cast<const std::uint32_t*>(from);
  } else if constexpr (kBytes == 2) {
    words[0] = *reinterpret_cast<const std::uint16_t*>(from);
  } else {
    static_assert(kBytes == 1);
    words[0] = *reinterpret_cast<const std::uint8_t*>(from);
  }
}
template <int kBytes>
__device__ __forceinline__ void write_words(const std::uint32_t* words, std::byte* to) {
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      reinterpret_cast<uint4*>(to)[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  } else if constexpr (kBytes == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else if constexpr (kBytes == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = words[0];
  } else if constexpr (kBytes == 2) {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(words[0]);
  } else {
    static_assert(kBytes == 1);
    *reinterpret_cast<std::uint8_t*>(to) = static_cast<std::uint8_t>(words[0]);
  }
}

/// A word of units: its unit u is unit index(u) of `words`. Bytes after the last unit are ignored.
template <int kUnit, class Index>
__device__ __forceinline__ std::uint32_t join_units(const std::uint32_t* words, const Index& index) {
  if constexpr (kUnit == 4) {
    return words[index(0)];
  } else if constexpr (kUnit == 2) {
    const int first = index(0), second = index(1);
    return __byte_perm(words[first / 2], words[second / 2],
                       (first % 2 == 0 ? 0x10U : 0x32U) | (second % 2 == 0 ? 0x5400U : 0x7600U));
  } else {
    const auto pair = [&](int first, int second) {
      return __byte_perm(words[first / 4], words[second / 4],
                         static_cast<unsigned>(first % 4) | static_cast<unsigned>(4 + second % 4) << 4);
    };
    return __byte_perm(pair(index(0), index(1)), pair(index(2), index(3)), 0x5410);
  }
}

/// The tile of a thread: kAlong units of each of kAcross packs of the source. A contiguous side has its packs in
/// succession in memory.
template <int kUnit, int kAlong, int kAcross, bool kSourceInOne, bool kTargetInOne>
struct Tile {
  static constexpr int kBytes = kUnit * kAlong * kAcross;
  static constexpr int kPackBytes = kUnit * kAlong;         ///< of the source
  static constexpr int kTargetPackBytes = kUnit * kAcross;  ///< of the target
  static constexpr int kPackWords = (kPackBytes + 3) / 4;
  static constexpr int kWords = kSourceInOne ? kBytes / 4 : kAcross * kPackWords;

  static __device__ __forceinline__ void read(std::uint32_t (&words)[kWords], const std::byte* from,
                                              std::int64_t stride) {
    if constexpr (kSourceInOne) {
      read_words<kBytes>(words, from);
    } else {
#pragma unroll
      for (int i = 0; i < kAcross; ++i) read_words<kPackBytes>(words + i * kPackWords, from + i * stride);
    }
  }

  /// The position in the words read of the target's unit number `unit`, counted through its packs.
  static __device__ __forceinline__ int place_of(int unit) {
    const int last = kAlong * kAcross - 1, at = unit < last ? unit : last;
    const int along = at / kAcross, across = at % kAcross;
    return kSourceInOne ? across * kAlong + along : across * (kPackWords * 4 / kUnit) + along;
  }

  static constexpr int kPieces = kTargetInOne ? 1 : kAlong;  ///< of the target
  static constexpr int kPieceBytes = kBytes / kPieces;
  static constexpr int kPieceWords = (kPieceBytes + 3) / 4;

  static __device__ __forceinline__ void join_piece(const std::uint32_t (&words)[kWords], int piece,
                                                    std::uint32_t (&out)[kPieceWords]) {
    const int first = piece * (kPieceBytes / kUnit);
#pragma unroll
    for (int w = 0; w < kPieceWords; ++w) {
      if constexpr (kUnit == 8)
        out[w] = words[2 * place_of(first + w / 2) + w % 2];
      else
        out[w] = join_units<kUnit>(words, [&](int u) { return place_of(first + w * (4 / kUnit) + u); });
    }
  }

  static __device__ __forceinline__ void write(const std::uint32_t (&words)[kWords], std::byte* to,
                                               std::int64_t stride) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      std::uint32_t out[kPieceWords];
      join_piece(words, piece, out);
      write_words<kPieceBytes>(out, to + piece * stride);
    }
  }
};

/// The tile of thread `index`, counted along the long axis, or in squares of a warp.
template <bool kSquare>
struct TilePlace {
  std::uint32_t row, along, across;
  __device__ __forceinline__ TilePlace(const Transposition& turn, std::uint32_t index) {
    if constexpr (kSquare) {
      const std::uint32_t lane = index % 32;
      std::uint32_t square, line;
      row = turn.of_row.divide(index / 32, square);
      line = turn.of_line.divide(square, along);
      along = along * 8 + lane % 8;
      across = line * 4 + lane / 8;
    } else {
      std::uint32_t tile;
      row = turn.of_row.divide(index, tile);
      along = turn.along > 1 ? tile : 0;
      across = turn.along > 1 ? 0 : tile;
    }
  }
};

/// Adds to offsets, in bytes, those of place `row` along the other axes, of which there are `kMostAxes` at most.
template <int kMostAxes>
__device__ __forceinline__ void find_outer(const Transposition& turn, std::uint32_t row, std::int64_t& source,
                                           std::int64_t& target) {
  std::uint32_t rest = row;
#pragma unroll
  for (int axis = kMostAxes - 1; axis >= 0; --axis) {
    if (axis >= turn.rank) continue;
    std::uint32_t place = rest;
    if (axis > 0) rest = turn.outer[axis].extent.divide(rest, place);
    source += place * turn.outer[axis].from_stride;
    target += place * turn.outer[axis].to_stride;
  }
}

constexpr int kFewAxes = 4;

/// Exchanges halves between two neighbouring lanes with words A0 A1 and B0 B1 of 16 bytes each: the first gets A0
/// B0, the other A1 B1. The function is its own inverse.
__device__ __forceinline__ void exchange_halves(std::uint32_t (&words)[8]) {
  const bool is_second = threadIdx.x % 2 != 0;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t got = __shfl_xor_sync(0xFFFFFFFFU, is_second ? words[w] : words[4 + w], 1);
    words[w] = is_second ? got : words[w];
    words[4 + w] = is_second ? words[4 + w] : got;
  }
}

/// Writes 16 bytes without allocating in the first-level cache.
__device__ __forceinline__ void write_past_cache(const std::uint32_t* words, std::byte* to) {
  asm volatile("st.global.L1::no_allocate.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

/// Tiles of 32 bytes with a short axis of 2 units, one per thread. Those of two neighbours are contiguous, and their
/// number is even.
template <class T, bool kTargetInOne, int kUnit>
__global__ void __launch_bounds__(kPairThreads)
    transpose_pairs(Transposition turn, const std::byte* from, std::byte* to) {
  wait_for_previous();
  static_assert(T::kBytes == 32);
  const std::uint32_t index = blockIdx.x * kPairThreads + threadIdx.x;
  const bool exists = index < turn.tiles;
  std::uint32_t tile;
  const std::uint32_t row = turn.of_row.divide(exists ? index : 0, tile);
  std::int64_t source = tile * (kTargetInOne ? 16 : 32), target = tile * (kTargetInOne ? 32 : 16);
  find_outer<kFewAxes>(turn, row, source, target);
  (kTargetInOne ? target : source) -= threadIdx.x % 2 * 16;  // the second lane begins with the first's other half

  std::uint32_t words[8] = {};
  if (exists) {
    read_words<16>(words, from + source);
    read_words<16>(words + 4, from + source + (kTargetInOne ? turn.across_stride : 32));
  }
  if constexpr (kTargetInOne) {
    std::uint32_t out[8];
    T::join_piece(words, 0, out);
    exchange_halves(out);
    if (!exists) return;
    write_past_cache(out, to + target);
    write_past_cache(out + 4, to + target + 32);
  } else {
    exchange_halves(words);
    if (exists) T::write(words, to + target, turn.along_stride);
  }
}

template <class T, int kTiles, bool kSquare, int kUnit, int kAlong, int kAcross>
__global__ void __launch_bounds__(kThreads) transpose_kernel(Transposition turn, const std::byte* from, std::byte* to) {
  wait_for_previous();
  std::uint32_t words[kTiles][T::kWords];
  std::int64_t targets[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const std::uint32_t index = blockIdx.x * (kThreads * kTiles) + t * kThreads + threadIdx.x;
    const TilePlace<kSquare> at(turn, index);
    targets[t] = -1;
    if (index >= turn.tiles || at.along >= turn.along || at.across >= turn.across) continue;
    std::int64_t source = at.along * (kAlong * kUnit) + at.across * (kAcross * turn.across_stride);
    std::int64_t target = at.across * (kAcross * kUnit) + at.along * (kAlong * turn.along_stride);
    std::uint32_t rest = at.row;
    for (int axis = turn.rank - 1; axis >= 0; --axis) {
      std::uint32_t place = rest;
      if (axis > 0) rest = turn.outer[axis].extent.divide(rest, place);
      source += place * turn.outer[axis].from_stride;
      target += place * turn.outer[axis].to_stride;
    }
    T::read(words[t], from + source, turn.across_stride);
    targets[t] = target;
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
    if (targets[t] >= 0) T::write(words[t], to + targets[t], turn.along_stride);
}

/// The axes of a copy that changes the innermost one, by their numbers.
struct TurnedAxes {
  int along = -1, across = -1;
  std::int64_t along_extent = 0, across_extent = 0;
};
std::optional<TurnedAxes> find_axes(const GridRows<2>& grid) {
  TurnedAxes axes;
  for (int axis = 0; axis < grid.rank; ++axis) {
    if (grid.extents[axis] == 1) continue;
    if (grid.strides[axis][0] == grid.length) axes.along = axis;
    if (grid.strides[axis][1] == grid.length) axes.across = axis;
  }
  if (axes.along < 0 || axes.across < 0 || axes.along == axes.across) return std::nullopt;
  axes.along_extent = grid.extents[axes.along];
  axes.across_extent = grid.extents[axes.across];
  return axes;
}

struct Sides {
  const void* from;
  void* to;
};

/// A copy, bound to its operands.
class Turn {
 public:
  Turn(void* stream, const GridRows<2>& grid, const TurnedAxes& axes, Sides sides)
      : stream_(static_cast<cudaStream_t>(stream)), grid_(grid), axes_(axes), sides_(sides) {}

  template <int kUnit>
  [[nodiscard]] bool launch() const {
    constexpr int kPack = kUnit == 1 ? 8 : 16 / kUnit;
    if (launch_short<kUnit, 2>() || launch_short<kUnit, 3>() || launch_short<kUnit, 4>() || launch_short<kUnit, 8>())
      return true;
    if (launch_tile<kUnit, kPack, kPack, false, false>()) return true;
    if constexpr (kPack > 2)
      return launch_tile<kUnit, kPack / 2, kPack / 2, false, false>();
    else
      return false;
  }

 private:
  /// With a short axis of that extent on either side.
  template <int kUnit, int kShort>
  [[nodiscard]] bool launch_short() const {
    constexpr int kOther = kShort == 3 ? 16 / kUnit : kShort * kUnit < 16 ? 16 / (kShort * kUnit) : 1;
    const bool target = axes_.across_extent == kShort && grid_.strides[axes_.along][1] == kShort * grid_.length;
    if constexpr (kShort == 2)
      if (target && launch_tile<kUnit, 2 * kOther, kShort, false, true, true>()) return true;
    if (target && launch_tile<kUnit, kOther, kShort, false, true>()) return true;
    const bool source = axes_.along_extent == kShort && grid_.strides[axes_.across][0] == kShort * grid_.length;
    if constexpr (kShort == 2)
      if (source && launch_tile<kUnit, kShort, 2 * kOther, true, false, true>()) return true;
    return source && launch_tile<kUnit, kShort, kOther, true, false>();
  }

  /// With kInPairs two lanes exchange halves.
  template <int kUnit, int kAlong, int kAcross, bool kSourceInOne, bool kTargetInOne, bool kInPairs = false>
  [[nodiscard]] bool launch_tile() const {
    using T = Tile<kUnit, kAlong, kAcross, kSourceInOne, kTargetInOne>;
    constexpr bool kSquare = !kSourceInOne && !kTargetInOne;
    if (axes_.along_extent % kAlong != 0 || axes_.across_extent % kAcross != 0) return false;
    if (!fits(0, sides_.from, kSourceInOne ? T::kBytes : T::kPackBytes, axes_.along, kSourceInOne) ||
        !fits(1, sides_.to, kTargetInOne ? T::kBytes : T::kTargetPackBytes, axes_.across, kTargetInOne))
      return false;
    const std::int64_t along = axes_.along_extent / kAlong, across = axes_.across_extent / kAcross;
    const std::int64_t of_line = kSquare ? divide_up(along, std::int64_t{8}) : along;
    const std::int64_t of_row = of_line * (kSquare ? divide_up(across, std::int64_t{4}) : across);
    std::int64_t tiles = of_row * (kSquare ? 32 : 1);
    Transposition turn;
    for (int axis = 0; axis < grid_.rank; ++axis) {
      if (axis == axes_.along || axis == axes_.across) continue;
      turn.outer[turn.rank].from_stride = grid_.strides[axis][0];
      turn.outer[turn.rank].to_stride = grid_.strides[axis][1];
      turn.outer[turn.rank++].extent = Divisor(grid_.extents[axis]);
      tiles *= grid_.extents[axis];
    }
    if (tiles > kMostTiles) return false;
    turn.tiles = static_cast<std::uint32_t>(tiles);
    turn.along = static_cast<std::uint32_t>(along);
    turn.across = static_cast<std::uint32_t>(across);
    turn.of_row = Divisor(of_row);
    turn.of_line = Divisor(of_line);
    turn.along_stride = grid_.strides[axes_.along][1];
    turn.across_stride = grid_.strides[axes_.across][0];
    const auto submit = [&](auto kernel, std::int64_t each, int threads = kThreads) {
      launch_early(kernel, {blocks_along_x(divide_up(tiles, threads * each)), dim3(threads), stream_}, turn,
                   static_cast<const std::byte*>(sides_.from), static_cast<std::byte*>(sides_.to));
      check_launched("cuda transposed copy kernel");
    };
    if constexpr (kInPairs) {
      if (of_row % 2 != 0 || turn.rank > kFewAxes) return false;
      submit(transpose_pairs<T, kTargetInOne, kUnit>, 1, kPairThreads);
    } else {
      constexpr int kTiles = T::kBytes < kBytesInFlight ? kBytesInFlight / T::kBytes : 1;
      if (tiles < kFewTiles)
        submit(transpose_kernel<T, 1, kSquare, kUnit, kAlong, kAcross>, 1);
      else
        submit(transpose_kernel<T, kTiles, kSquare, kUnit, kAlong, kAcross>, kTiles);
    }
    return true;
  }

  /// Whether all pieces of `bytes` on that side are aligned for accesses of up to 16 bytes. Pieces follow each other
  /// along axis `own`; with `in_one` both axes form one piece.
  [[nodiscard]] bool fits(int side, const void* address, std::int64_t bytes, int own, bool in_one) const {
    std::int64_t access = 16;
    while (bytes % access != 0) access /= 2;
    if (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(access) != 0) return false;
    for (int axis = 0; axis < grid_.rank; ++axis) {
      const bool is_inside = axis == own || (in_one && (axis == axes_.along || axis == axes_.across));
      if (!is_inside && grid_.extents[axis] > 1 && grid_.strides[axis][side] % access != 0) return false;
    }
    return true;
  }

  cudaStream_t stream_;
  const GridRows<2>& grid_;
  const TurnedAxes& axes_;
  Sides sides_;
};

}  // namespace

bool launch_transposed(void* stream, const CopyRows& rows, const void* from, void* to) {
  if (rows.grid.repeats[0] || rows.grid.rows == 0) return false;
  const std::optional<TurnedAxes> axes = find_axes(rows.grid);
  if (!axes) return false;
  const Turn turn(stream, rows.grid, *axes, {from, to});
  switch (rows.grid.length) {
    case 1:
      return turn.launch<1>();
    case 2:
      return turn.launch<2>();
    case 4:
      return turn.launch<4>();
    case 8:
      return turn.launch<8>();
    default:
      return false;
  }
}

}  // namespace headroom::cuda
