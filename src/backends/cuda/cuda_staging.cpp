// Copying from pageable memory through the driver reaches 12 GB/s on a link of 55 (H200, PCIe 5): one driver thread
// fills its buffers. One thread of ours moves 14 GB/s and four 30, so an OpenMP team copies. It is forked once per
// tensor, and all threads get the same number of equal pieces: with one piece size for all tensors, some threads
// have no work at the end. Test: a mapped file in the page cache, tensors of 18 to 108 MiB, 12 threads with 2
// buffers each, variants alternating over three runs:
//   pieces of 2 MiB              48.8, 49.8, 50.0 GB/s
//   equal ones of at most 2 MiB  50.2, 50.4, 50.3
//   equal ones of at most 4 MiB  51.0, 51.8, 51.5
// At most 1 MiB is slower (46.3), as are 14 threads (49.1). In another hour on a shared host all were slower: 46.0
// and 46.8 for the first two. There, reading the file instead of mapping it changed nothing (45.5), nor did
// prefetching the pages of a piece (46.4). Two copy streams instead of one are slower.

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/staging.cuh"
#include "base/first_failure.hpp"
#include "base/tensors/divide_up.hpp"

namespace headroom::cuda {
namespace {

constexpr std::size_t kLeastPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kMostPieceBytes = std::size_t{4} << 20;
constexpr std::size_t kSlotsPerLane = 2;
constexpr int kMostLanes = 12;

/// The piece size for `bytes`: equal pieces, the same number for each lane, but none too small.
std::size_t piece_bytes(std::size_t bytes, std::size_t lanes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t of_each = divide_up(bytes, lanes * kMostPieceBytes);
  const std::size_t equal = divide_up(divide_up(bytes, lanes * of_each), kPage) * kPage;
  return std::clamp(equal, kLeastPieceBytes, kMostPieceBytes);
}

}  // namespace

Staging::~Staging() {
  for (const Lane& lane : lanes_)
    for (const Slot& slot : lane.slots) {
      if (slot.sent == nullptr) continue;
      report(cudaEventSynchronize(slot.sent));
      report(cudaEventDestroy(slot.sent));
    }
  if (memory_ != nullptr) report(cudaFreeHost(memory_));
}

void Staging::make_lanes() {
  check(cudaGetDevice(&device_));
  const auto lanes = static_cast<std::size_t>(std::clamp(omp_get_max_threads(), 1, kMostLanes));
  check(cudaMallocHost(&memory_, lanes * kSlotsPerLane * kMostPieceBytes));
  lanes_.resize(lanes);
  auto* buffer = static_cast<std::byte*>(memory_);
  for (Lane& lane : lanes_) {
    lane.slots.resize(kSlotsPerLane);
    for (Slot& slot : lane.slots) {
      slot.buffer = buffer;
      buffer += kMostPieceBytes;
      check(cudaEventCreateWithFlags(&slot.sent, cudaEventDisableTiming));
    }
  }
}

void Staging::copy(cudaStream_t stream, void* device, const void* host, std::size_t bytes) {
  if (lanes_.empty()) make_lanes();
  if (bytes == 0) return;
  const std::size_t piece_size = piece_bytes(bytes, lanes_.size());
  const auto pieces = static_cast<std::ptrdiff_t>(divide_up(bytes, piece_size));
  const int team = static_cast<int>(std::min<std::ptrdiff_t>(pieces, static_cast<std::ptrdiff_t>(lanes_.size())));
  FirstFailure failure;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (std::ptrdiff_t piece = 0; piece < pieces; ++piece) {
    failure.guard([&] {
      check(cudaSetDevice(device_));  // the device is set per thread; the default would open the first GPU
      Lane& lane = lanes_[static_cast<std::size_t>(omp_get_thread_num())];
      const Slot& slot = lane.slots[lane.next];
      lane.next = (lane.next + 1) % lane.slots.size();
      const std::size_t begin = static_cast<std::size_t>(piece) * piece_size;
      const std::size_t length = std::min(piece_size, bytes - begin);
      check(cudaEventSynchronize(slot.sent));
      std::memcpy(slot.buffer, static_cast<const std::byte*>(host) + begin, length);
      check(cudaMemcpyAsync(static_cast<std::byte*>(device) + begin, slot.buffer, length, cudaMemcpyHostToDevice,
                            stream));
      check(cudaEventRecord(slot.sent, stream));
    });
  }
  failure.rethrow();
}

}  // namespace headroom::cuda
