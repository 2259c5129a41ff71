// One launch moves all pieces of an exchange: some blocks store into the peers' slots, some copy what arrives out of
// their own, some copy what this rank keeps. So both directions of a link are busy, and chunks follow each other.
//
// A chunk is stored by all threads of a block; then one thread releases the counter at the receiver, system-wide. The
// thread that sees the counter acquires it for its block.

#include <algorithm>

#include "backends/cuda/early_launch.cuh"
#include "backends/cuda/exchange.cuh"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kLooksBetweenStops = 256;
constexpr int kInFlight = 4;      // loads of a thread
constexpr int kBlocksAtOnce = 2;  // on a multiprocessor

__device__ __forceinline__ std::uint32_t acquire(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ __forceinline__ void release(std::uint32_t* word, std::uint32_t value) {
  asm volatile("fence.acq_rel.sys;\n\tst.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ __forceinline__ std::uint32_t look(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

/// For all threads of a block: waits until the counter has reached `least`. False if the exchanges are stopped.
__device__ bool wait_for(const std::uint32_t* counter, std::uint32_t least, const std::uint32_t* is_stopped) {
  bool has_reached = true;
  if (threadIdx.x == 0)
    for (int looks = 1; static_cast<std::int32_t>(acquire(counter) - least) < 0; ++looks)
      if (looks % kLooksBetweenStops == 0 && look(is_stopped) != 0) {
        has_reached = false;
        break;
      }
  return __syncthreads_and(has_reached) != 0;
}

template <class Unit>
__device__ __forceinline__ Unit* at(const RowAddress& rows, std::uint64_t byte) {
  if (rows.is_contiguous) return reinterpret_cast<Unit*>(rows.first + byte);
  const auto unit = static_cast<std::uint32_t>(byte / sizeof(Unit));
  const auto units = static_cast<std::uint32_t>(rows.row_bytes / sizeof(Unit));
  const std::uint32_t row = unit / units;
  return reinterpret_cast<Unit*>(rows.first + row * rows.pitch + (unit - row * units) * sizeof(Unit));
}

/// Reads past the first-level cache, which knows nothing of what another device has written.
template <class Unit>
__device__ void copy_units(const RowAddress& from, std::uint64_t read_at, const RowAddress& to, std::uint64_t write_at,
                           std::uint64_t bytes) {
  constexpr std::uint64_t kStep = std::uint64_t{kThreads} * sizeof(Unit);
  for (std::uint64_t byte = threadIdx.x * sizeof(Unit); byte < bytes; byte += kInFlight * kStep) {
    Unit units[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (byte + i * kStep < bytes) units[i] = __ldcg(at<Unit>(from, read_at + byte + i * kStep));
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (byte + i * kStep < bytes) *at<Unit>(to, write_at + byte + i * kStep) = units[i];
  }
}

__device__ void copy_bytes(const RowAddress& from, std::uint64_t read_at, const RowAddress& to, std::uint64_t write_at,
                           std::uint64_t bytes) {
  const std::uint32_t all = from.unit | to.unit | (bytes % 16 == 0 ? 16 : static_cast<std::uint32_t>(bytes % 16));
  switch (all & (0U - all)) {
    case 16:
      return copy_units<uint4>(from, read_at, to, write_at, bytes);
    case 8:
      return copy_units<uint2>(from, read_at, to, write_at, bytes);
    case 4:
      return copy_units<unsigned>(from, read_at, to, write_at, bytes);
    case 2:
      return copy_units<unsigned short>(from, read_at, to, write_at, bytes);
    default:
      return copy_units<unsigned char>(from, read_at, to, write_at, bytes);
  }
}

/// Blocks that share a piece: both sides of it compute the same.
__host__ __device__ inline std::uint64_t blocks_of(std::uint64_t bytes, std::uint64_t most) {
  const std::uint64_t blocks = (bytes + kLeastBlockBytes - 1) / kLeastBlockBytes;
  return blocks < 1 ? 1 : blocks > most ? most : blocks;
}

/// The part of a piece that a block moves.
struct Part {
  std::uint64_t begin, end;

  __device__ Part(std::uint64_t bytes, std::uint64_t block, int most_blocks) {
    const std::uint64_t blocks = blocks_of(bytes, most_blocks),
                        share = ((bytes + blocks - 1) / blocks + 127) / 128 * 128;
    begin = block * share < bytes ? block * share : bytes;
    end = begin + share < bytes ? begin + share : bytes;
  }
  [[nodiscard]] __device__ std::uint32_t chunks() const {
    return static_cast<std::uint32_t>((end - begin + kSlotBytes - 1) / kSlotBytes);
  }
  [[nodiscard]] __device__ std::uint64_t chunk_bytes(std::uint32_t chunk) const {
    const std::uint64_t left = end - begin - std::uint64_t{chunk} * kSlotBytes;
    return left < kSlotBytes ? left : kSlotBytes;
  }
};

/// Moves the block's part of all pieces in one direction, a chunk of each in turn.
template <bool kPushes>
__device__ void move(const ExchangePiece* pieces, int count, std::uint32_t block, int most_blocks,
                     const std::uint32_t* is_stopped) {
  std::uint32_t before[kMostRanks - 1], most = 0;
  const std::uint32_t word = block * kCounterStride;
  for (int i = 0; i < count; ++i) {
    before[i] = pieces[i].count[word];
    const std::uint32_t chunks = Part(pieces[i].bytes, block, most_blocks).chunks();
    most = chunks > most ? chunks : most;
  }
  __syncthreads();  // all have read the counts
  for (std::uint32_t chunk = 0; chunk < most; ++chunk)
    for (int i = 0; i < count; ++i) {
      const ExchangePiece& piece = pieces[i];
      const Part part(piece.bytes, block, most_blocks);
      if (chunk >= part.chunks()) continue;
      const std::uint32_t number = before[i] + chunk;  // of all between the two ranks, from 0
      char* const slot = piece.slots + (std::uint64_t{block} * kSlots + number % kSlots) * std::uint64_t{kSlotBytes};
      const RowAddress in_slot{.first = slot};
      const std::uint64_t at_byte = part.begin + std::uint64_t{chunk} * kSlotBytes, bytes = part.chunk_bytes(chunk);
      if (!wait_for(kPushes ? piece.taken + word : piece.arrived + word, kPushes ? number + 1 - kSlots : number + 1,
                    is_stopped))
        return;
      if constexpr (kPushes)
        copy_bytes(piece.rows, at_byte, in_slot, 0, bytes);
      else
        copy_bytes(in_slot, 0, piece.rows, at_byte, bytes);
      __syncthreads();
      if (threadIdx.x == 0) release(kPushes ? piece.arrived + word : piece.taken + word, number + 1);
    }
  if (threadIdx.x == 0)
    for (int i = 0; i < count; ++i)
      pieces[i].count[word] = before[i] + Part(pieces[i].bytes, block, most_blocks).chunks();
}

__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    exchange_kernel(const __grid_constant__ Exchange exchange, std::uint32_t blocks) {
  wait_for_previous();
  std::uint32_t role = blockIdx.x / blocks;
  const std::uint32_t block = blockIdx.x % blocks;
  if (exchange.pushes > 0 && role-- == 0)
    return move<true>(exchange.push, exchange.pushes, block, exchange.most_blocks, exchange.is_stopped);
  if (exchange.pulls > 0 && role-- == 0)
    return move<false>(exchange.pull, exchange.pulls, block, exchange.most_blocks, exchange.is_stopped);
  const KeptPiece& kept = exchange.keep;
  const Part part(kept.bytes, block, exchange.most_blocks);
  if (part.begin < part.end) copy_bytes(kept.from, part.begin, kept.to, part.begin, part.end - part.begin);
}

}  // namespace

std::uint32_t unit_of(const void* address, std::uint64_t row_bytes, std::uint64_t pitch, bool contiguous) {
  std::uint64_t all = reinterpret_cast<std::uint64_t>(address) | 16;
  if (!contiguous) all |= row_bytes | pitch;
  return static_cast<std::uint32_t>(all & (0 - all));
}

int resident_blocks() {
  constexpr int kRoles = 3;
  int device = 0, multiprocessors = 0, at_once = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, exchange_kernel, kThreads, 0) != cudaSuccess)
    return 1;
  return std::clamp(multiprocessors * at_once / kRoles, 1, kMostBlocks);
}

void launch_exchange(cudaStream_t stream, const Exchange& exchange) {
  const auto most = static_cast<std::uint64_t>(exchange.most_blocks);
  std::uint64_t blocks = exchange.keeps > 0 ? blocks_of(exchange.keep.bytes, most) : 1;
  for (int i = 0; i < exchange.pushes; ++i) blocks = std::max(blocks, blocks_of(exchange.push[i].bytes, most));
  for (int i = 0; i < exchange.pulls; ++i) blocks = std::max(blocks, blocks_of(exchange.pull[i].bytes, most));
  const int roles = (exchange.pushes > 0) + (exchange.pulls > 0) + exchange.keeps;
  if (roles == 0) return;
  launch_early(exchange_kernel, {dim3(static_cast<unsigned>(roles * blocks)), dim3(kThreads), stream}, exchange,
               static_cast<std::uint32_t>(blocks));
}

}  // namespace headroom::cuda
