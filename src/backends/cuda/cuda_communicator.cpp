// Ranks on GPUs of one process that store into slots in each other's memory (exchange.cuh), or in the host's if the
// GPUs are not joined. Slots on a GPU are allocated by cudaMalloc, since memory of a pool or with addresses of its own
// is visible to its device alone.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/backend.hpp"
#include "backends/cuda/communicator.cuh"
#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/exchange.cuh"
#include "base/error.hpp"

namespace headroom::cuda {
namespace {

/// Makes a GPU current during its lifetime.
class OnGpu {
 public:
  explicit OnGpu(int gpu) {
    check(cudaGetDevice(&before_));
    check(cudaSetDevice(gpu));
  }
  ~OnGpu() { report(cudaSetDevice(before_)); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  int before_ = 0;
};

/// What a GPU holds for its links with the others: for each rank slots, and counters of what arrived from it, of what
/// it has taken, and of both as this GPU had counted before an exchange.
class LinkMemory {
 public:
  LinkMemory(int gpu, int ranks, LinkMemoryKind kind)
      : gpu_(gpu), ranks_(static_cast<std::uint64_t>(ranks)), kind_(kind) {
    const OnGpu on(gpu_);
    void* memory = nullptr;
    const std::uint64_t bytes = ranks_ * kPairSlotBytes + word_bytes();
    check(kind == LinkMemoryKind::kReceiver
              ? cudaMalloc(&memory, bytes)
              : cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    slots_ = static_cast<char*>(memory);
    words_ = reinterpret_cast<std::uint32_t*>(slots_ + ranks_ * kPairSlotBytes);
    const cudaError_t status = clear_words();
    if (status != cudaSuccess) report(free());  // a destructor would not run
    check(status);
  }
  ~LinkMemory() {
    int before = 0;
    report(cudaGetDevice(&before));
    report(cudaSetDevice(gpu_));
    report(free());
    report(cudaSetDevice(before));
  }
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;

  /// Waits for the GPU, and counts from 0 again.
  void forget() {
    const OnGpu on(gpu_);
    check(cudaDeviceSynchronize());
    check(clear_words());
  }

  [[nodiscard]] char* slots_from(int rank) const { return slots_ + static_cast<std::uint64_t>(rank) * kPairSlotBytes; }
  [[nodiscard]] std::uint32_t* arrived_from(int rank) const { return words(0, rank); }
  [[nodiscard]] std::uint32_t* taken_by(int rank) const { return words(1, rank); }
  [[nodiscard]] std::uint32_t* sent_to(int rank) const { return words(2, rank); }
  [[nodiscard]] std::uint32_t* received_from(int rank) const { return words(3, rank); }

 private:
  static constexpr std::uint64_t kKinds = 4;  // of counters
  [[nodiscard]] std::uint64_t word_bytes() const { return kKinds * ranks_ * kPairWords * sizeof(std::uint32_t); }
  [[nodiscard]] std::uint32_t* words(std::uint64_t kind, int rank) const {
    return words_ + (kind * ranks_ + static_cast<std::uint64_t>(rank)) * kPairWords;
  }
  cudaError_t clear_words() {
    if (kind_ == LinkMemoryKind::kHost) {
      std::memset(words_, 0, word_bytes());
      return cudaSuccess;
    }
    const cudaError_t status = cudaMemset(words_, 0, word_bytes());
    return status != cudaSuccess ? status : cudaDeviceSynchronize();
  }
  cudaError_t free() { return kind_ == LinkMemoryKind::kReceiver ? cudaFree(slots_) : cudaFreeHost(slots_); }

  int gpu_;
  std::uint64_t ranks_;
  LinkMemoryKind kind_;
  char* slots_ = nullptr;
  std::uint32_t* words_ = nullptr;
};

/// The memory of all ranks, and the word that stops their exchanges.
class Links {
 public:
  Links(std::shared_ptr<RankTeam> team, std::span<const int> gpus, LinkMemoryKind kind) : team_(std::move(team)) {
    if (gpus.size() > kMostRanks) fail_usage("cp={}: at most {} GPUs exchange data", gpus.size(), kMostRanks);
    if (kind == LinkMemoryKind::kReceiver) enable_access(gpus);
    for (const int gpu : gpus) {
      const OnGpu on(gpu);
      most_blocks_ = std::min(most_blocks_, resident_blocks());
    }
    void* host = nullptr;
    check(cudaHostAlloc(&host, sizeof(std::uint32_t), cudaHostAllocMapped | cudaHostAllocPortable));
    is_stopped_ = static_cast<std::uint32_t*>(host);
    stop(false);
    try {
      for (const int gpu : gpus) memory_.push_back(std::make_unique<LinkMemory>(gpu, team_->ranks(), kind));
    } catch (...) {
      report(cudaFreeHost(is_stopped_));
      throw;
    }
  }
  ~Links() { report(cudaFreeHost(is_stopped_)); }
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  [[nodiscard]] RankTeam& team() const { return *team_; }
  [[nodiscard]] LinkMemory& of(int rank) const { return *memory_[static_cast<std::size_t>(rank)]; }
  void stop(bool is_stopped) const noexcept {
    std::atomic_ref(*is_stopped_).store(is_stopped ? 1 : 0, std::memory_order_release);
  }
  [[nodiscard]] bool is_stopped() const noexcept {
    return std::atomic_ref(*is_stopped_).load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] const std::uint32_t* stop_word() const { return is_stopped_; }
  [[nodiscard]] int most_blocks() const { return most_blocks_; }

 private:
  static void enable_access(std::span<const int> gpus) {
    for (const int gpu : gpus)
      for (const int other : gpus) {
        if (gpu == other) continue;
        const OnGpu on(gpu);
        const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
        if (status == cudaErrorPeerAccessAlreadyEnabled)
          static_cast<void>(cudaGetLastError());
        else
          check(status);
      }
  }

  std::shared_ptr<RankTeam> team_;
  int most_blocks_ = kMostBlocks;        // that every GPU has room for
  std::uint32_t* is_stopped_ = nullptr;  // mapped host memory
  std::vector<std::unique_ptr<LinkMemory>> memory_;
};

RowAddress address_of(const Communicator::Rows& rows) {
  RowAddress address{.first = rows.at.address<char>(),
                     .row_bytes = rows.row_bytes,
                     .pitch = rows.pitch,
                     .is_contiguous = rows.rows == 1 || rows.row_bytes == rows.pitch};
  address.unit = unit_of(address.first, address.row_bytes, address.pitch, address.is_contiguous);
  HR_CHECK(address.is_contiguous || rows.bytes() / address.unit <= UINT32_MAX);
  return address;
}

KeptPiece kept_piece(const Communicator::Kept& kept) {
  HR_CHECK_EQ(kept.from.bytes(), kept.to.bytes());
  return {.from = address_of(kept.from), .to = address_of(kept.to), .bytes = kept.from.bytes()};
}

class GpuCommunicator final : public Communicator {
 public:
  GpuCommunicator(std::shared_ptr<Links> links, int rank) : links_(std::move(links)), rank_(rank) {}

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int ranks() const noexcept override { return links_->team().ranks(); }

  void exchange(Stream& stream, std::span<const Sent> sent, std::span<const Received> received,
                std::span<const Kept> kept) override {
    HR_CHECK(sent.size() < kMostRanks && received.size() < kMostRanks && kept.size() <= 1);
    auto* const native = static_cast<cudaStream_t>(stream.native_handle());
    if (links_->is_stopped()) throw RankStopped();
    meet_unless_recorded(native);
    const LinkMemory& own = links_->of(rank_);
    Exchange exchange{.most_blocks = links_->most_blocks(), .is_stopped = links_->stop_word()};
    for (const auto& [to, from] : sent) {
      const LinkMemory& there = links_->of(to);
      exchange.push[exchange.pushes++] = {.rows = address_of(from),
                                          .bytes = from.bytes(),
                                          .slots = there.slots_from(rank_),
                                          .arrived = there.arrived_from(rank_),
                                          .taken = own.taken_by(to),
                                          .count = own.sent_to(to)};
    }
    for (const auto& [from, to] : received) {
      const LinkMemory& there = links_->of(from);
      exchange.pull[exchange.pulls++] = {.rows = address_of(to),
                                         .bytes = to.bytes(),
                                         .slots = own.slots_from(from),
                                         .arrived = own.arrived_from(from),
                                         .taken = there.taken_by(rank_),
                                         .count = own.received_from(from)};
    }
    for (const Kept& one : kept) {
      exchange.keep = kept_piece(one);
      exchange.keeps = 1;
    }
    launch_exchange(native, exchange);
    check(cudaGetLastError());
  }

  void meet() override { links_->team().meet(); }
  void stop() noexcept override { links_->stop(true); }
  void restart() override {
    for (int rank = 0; rank < ranks(); ++rank) links_->of(rank).forget();
    links_->stop(false);
  }

 private:
  /// A rank that runs ahead of the others could fill its queue, and then wait for them in a call that others need.
  void meet_unless_recorded(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &status));
    if (status == cudaStreamCaptureStatusNone) meet();
  }

  std::shared_ptr<Links> links_;
  int rank_;
};

}  // namespace

LinkMemoryKind best_link_memory(std::span<const int> gpus) {
  for (const int gpu : gpus)
    for (const int other : gpus) {
      int can = 1;
      if (gpu != other) check(cudaDeviceCanAccessPeer(&can, gpu, other));
      if (can == 0) return LinkMemoryKind::kHost;
    }
  return LinkMemoryKind::kReceiver;
}

std::vector<std::shared_ptr<Communicator>> connect_gpus(const std::shared_ptr<RankTeam>& team,
                                                        std::span<const int> gpus, LinkMemoryKind kind) {
  HR_CHECK_EQ(static_cast<int>(gpus.size()), team->ranks());
  const auto links = std::make_shared<Links>(team, gpus, kind);
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (int rank = 0; rank < team->ranks(); ++rank)
    communicators.push_back(std::make_shared<GpuCommunicator>(links, rank));
  return communicators;
}

void copy_kept(Stream& stream, const Communicator::Kept& kept) {
  Exchange exchange{.keep = kept_piece(kept), .most_blocks = kMostBlocks};
  exchange.keeps = 1;
  launch_exchange(static_cast<cudaStream_t>(stream.native_handle()), exchange);
  check(cudaGetLastError());
}

}  // namespace headroom::cuda
