#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// Exchanges between GPUs that store into each other's memory. Each ordered pair of ranks has a ring of slots in the
/// receiver's memory, or the host's. A sender copies a chunk into a slot and then raises a counter next to it; the
/// receiver copies the chunk out and raises a counter at the sender, which may then write the slot again. Every block
/// has its own slots and counters, so blocks wait for no other block of their kernel.
namespace headroom::cuda {

inline constexpr int kMostRanks = 8;
inline constexpr int kMostBlocks = 64;  ///< in either direction
inline constexpr int kSlots = 4;
inline constexpr std::uint32_t kSlotBytes = std::uint32_t{64} << 10;
/// Bytes that one block moves at least; each has a cache line for a counter.
inline constexpr std::uint64_t kLeastBlockBytes = std::uint64_t{8} << 10;
inline constexpr int kCounterStride = 32;  ///< in words

/// Rows of bytes at equal distances.
struct RowAddress {
  char* first = nullptr;
  std::uint64_t row_bytes = 0;
  std::uint64_t pitch = 0;
  bool is_contiguous = true;
  std::uint32_t unit = 16;  ///< power of two of which the address, and unless contiguous row and pitch, are multiples
};

/// One piece, to another rank or from it. Slots and counters are those of block 0; the others follow.
struct ExchangePiece {
  RowAddress rows = {};
  std::uint64_t bytes = 0;
  char* slots = nullptr;
  std::uint32_t* arrived = nullptr;  ///< chunks in the slots so far: at the receiver
  std::uint32_t* taken = nullptr;    ///< chunks copied out so far: at the sender
  std::uint32_t* count = nullptr;    ///< chunks that this side had moved before this exchange: here
};

struct KeptPiece {
  RowAddress from = {}, to = {};
  std::uint64_t bytes = 0;
};

struct Exchange {
  int pushes = 0, pulls = 0, keeps = 0;
  ExchangePiece push[kMostRanks - 1] = {}, pull[kMostRanks - 1] = {};
  KeptPiece keep = {};
  int most_blocks = 1;                        ///< in either direction: the same on all ranks, and all resident at once
  const std::uint32_t* is_stopped = nullptr;  ///< mapped: non-zero ends all waiting
};

/// The most bytes of slots, and words of counters of either kind, of one ordered pair of ranks.
inline constexpr std::uint64_t kPairSlotBytes = std::uint64_t{kMostBlocks} * kSlots * kSlotBytes;
inline constexpr std::uint64_t kPairWords = std::uint64_t{kMostBlocks} * kCounterStride;

/// `unit` of an address.
[[nodiscard]] std::uint32_t unit_of(const void* address, std::uint64_t row_bytes, std::uint64_t pitch, bool contiguous);
/// Blocks in either direction that are resident at once on the current GPU, together with those that keep.
[[nodiscard]] int resident_blocks();
void launch_exchange(cudaStream_t stream, const Exchange& exchange);

}  // namespace headroom::cuda
