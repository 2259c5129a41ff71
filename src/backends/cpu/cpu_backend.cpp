#include "backends/cpu/cpu_backend.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <system_error>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_info.hpp"
#include "backends/device_memory.hpp"
#include "base/error.hpp"
#include "base/files/stream_copy.hpp"
#include "base/out_of_memory.hpp"
#include "base/tensors/divide_up.hpp"
#include "base/text/format.hpp"

namespace headroom {
namespace {

const std::size_t kAlignment = DeviceKind::kCpu->alignment;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = std::size_t{4} << 10;
/// Allocations from this size on get a mapping of their own, so that freed memory returns to the system. The C
/// library would place small, long-lived blocks into it, and then have no room there for the next large one.
constexpr std::size_t kMapFrom = std::size_t{1} << 20;
/// Allocations from this size on use whole huge pages: fewer TLB misses in large weights and activations.
constexpr std::size_t kMapHugeFrom = 2 * kHugePage;
/// The least part of a copy per thread: a fork and join costs a few microseconds.
constexpr std::size_t kCopyPerThread = std::size_t{256} << 10;
/// Allocations from this size on are checked against available memory first: Linux would grant them and kill the
/// process later.
constexpr std::size_t kCheckFrom = std::size_t{64} << 20;

[[noreturn]] void fail_out_of_memory(std::size_t bytes) {
  const SystemMemory memory = system_memory();
  throw OutOfMemory(fmt::format("the CPU is out of memory: {} are needed in one block and {} are available{}",
                                format_bytes(bytes), format_bytes(memory.available_bytes),
                                memory.limit.empty() ? "" : ", by " + memory.limit));
}

/// Starts a team of `threads` threads, which OpenMP then keeps. Throws Error if that many cannot be started: OpenMP
/// itself would end the process.
void start_team(int threads) {
  static std::atomic<int> largest = 1;
  if (threads <= largest) return;
  std::atomic<bool> may_end = false;
  std::vector<std::thread> started;
  bool is_refused = false;
  try {
    started.reserve(static_cast<std::size_t>(threads));
    while (std::ssize(started) + 1 < threads) started.emplace_back([&] { may_end.wait(false); });
  } catch (const std::system_error&) {
    is_refused = true;
  }
  may_end = true;
  may_end.notify_all();
  for (std::thread& thread : started) thread.join();
  if (is_refused)
    fail(
        "{} threads cannot be started, but {}: a limit on threads (ulimit -u, a control group's pids.max) or on memory "
        "(ulimit -v) is reached, and --threads takes fewer",
        threads, started.size() + 1);
#pragma omp parallel num_threads(threads)
  static_cast<void>(omp_get_thread_num());
  largest = threads;
}

/// The size of the mapping for `bytes`.
constexpr std::size_t mapped_bytes(std::size_t bytes) {
  return round_up(bytes, bytes >= kMapHugeFrom ? kHugePage : kPage);
}

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

/// Maps `bytes`; null on failure.
void* map_pages(std::size_t bytes, int access = kReadWrite) {
  void* const mapped = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

/// Maps `bytes` (whole huge pages) at a multiple of the huge page size; null on failure.
void* map_huge(std::size_t bytes, int access = kReadWrite) {
  // mmap aligns to small pages only, so one huge page more is mapped, and the excess at both ends is unmapped.
  const std::size_t span = bytes + kHugePage;
  void* const mapped = map_pages(span, access);
  if (mapped == nullptr) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t aligned = round_up(start, kHugePage);
  const std::size_t head = aligned - start;
  const std::size_t tail = span - head - bytes;
  auto* const data = static_cast<std::byte*>(mapped) + head;
  if (head != 0) munmap(mapped, head);
  if (tail != 0) munmap(data + bytes, tail);
  madvise(data, bytes, MADV_HUGEPAGE);  // advice: a system without huge pages serves small ones
  return data;
}

/// Work runs synchronously on submission, so there is nothing to wait for.
class CpuStream final : public Stream {
 public:
  void wait(const Event& /*event*/) override {}
  void synchronize() override {}
  [[nodiscard]] void* native_handle() const noexcept override { return nullptr; }
};

class CpuEvent final : public Event {
 public:
  void record(Stream& /*stream*/) override { time_ = Clock::now(); }
  [[nodiscard]] double milliseconds_since(const Event& start) const override {
    return std::chrono::duration<double, std::milli>(time_ - dynamic_cast<const CpuEvent&>(start).time_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point time_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads)
      : threads_(threads == 0 ? allowed_cpus() : std::min(threads, allowed_cpus())),
        isa_(detect_cpu_isa()),
        cache_bytes_(last_level_cache_bytes()) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads_);
    start_team(threads_);
  }

  [[nodiscard]] DeviceProperties properties() const override {
    const SystemMemory memory = system_memory();
    return {.name = cpu_name(),
            .target = Target{.device = DeviceKind::kCpu,
                             .cpu_isa = isa_,
                             .threads = threads_,
                             .cache_bytes = cache_bytes_,
                             .core_cache_bytes = core_cache_bytes()},
            .memory_bytes = memory.installed_bytes,
            .available_bytes = memory.available_bytes};
  }

  void limit_threads(int threads) const override { omp_set_num_threads(std::min(threads, threads_)); }

  void copy_from_host(Stream& /*stream*/, DevicePointer device, const void* host, std::size_t bytes) override {
    copy(device.address(), host, bytes);
  }
  void copy_to_host(Stream& /*stream*/, void* host, DevicePointer device, std::size_t bytes) override {
    copy(host, device.address(), bytes);
  }
  void copy_on_device(Stream& /*stream*/, DevicePointer to, DevicePointer from, std::size_t bytes) override {
    copy(to.address(), from.address(), bytes);
  }

  void fill_normal(Stream& /*stream*/, DevicePointer device, DType dtype, std::uint64_t count,
                   const NormalStream& from) override {
    constexpr std::uint64_t kPiece = 1 << 16;  // elements; results do not depend on the cut
    const auto pieces = static_cast<std::int64_t>((count + kPiece - 1) / kPiece);
#pragma omp parallel for schedule(static) num_threads(team_size())
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::uint64_t begin = static_cast<std::uint64_t>(piece) * kPiece;
      store_normal((device + begin * size_of(dtype)).address(), dtype, std::min(kPiece, count - begin), from, begin);
    }
  }

  [[nodiscard]] std::size_t reserve_granularity() const override { return kHugePage; }

  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(); }
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void* /*native_handle*/) override { return make_stream(); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }

 protected:
  [[nodiscard]] void* allocate_bytes(std::size_t bytes) override {
    if (bytes > SIZE_MAX - 2 * kHugePage) fail_out_of_memory(bytes);  // rounding up would wrap around
    if (bytes >= kCheckFrom && bytes > system_memory().available_bytes) fail_out_of_memory(bytes);
    void* const data = bytes >= kMapHugeFrom ? map_huge(mapped_bytes(bytes))
                       : bytes >= kMapFrom
                           ? map_pages(mapped_bytes(bytes))
                           : std::aligned_alloc(kAlignment, round_up(std::max(bytes, kAlignment), kAlignment));
    if (data == nullptr) fail_out_of_memory(bytes);
    return data;
  }

  void free_bytes(void* data, std::size_t bytes) noexcept override {
    if (bytes >= kMapFrom) {
      munmap(data, mapped_bytes(bytes));
    } else {
      std::free(data);
    }
  }

  /// An address range is a mapping without access; memory is present once the mapping has access and is touched.
  [[nodiscard]] void* reserve_bytes(std::size_t bytes) override {
    void* const data = bytes > SIZE_MAX - 2 * kHugePage ? nullptr : map_huge(bytes, PROT_NONE);
    if (data == nullptr) fail_out_of_memory(bytes);
    try {
      reload_bytes(data, bytes);
    } catch (const OutOfMemory&) {
      munmap(data, bytes);
      throw;
    }
    return data;
  }
  void unload_bytes(void* data, std::size_t bytes) override {
    HR_CHECK_EQ(madvise(data, bytes, MADV_DONTNEED), 0);
    HR_CHECK_EQ(mprotect(data, bytes, PROT_NONE), 0);
  }
  void reload_bytes(void* data, std::size_t bytes) override {
    if (bytes >= kCheckFrom && bytes > system_memory().available_bytes) fail_out_of_memory(bytes);
    if (mprotect(data, bytes, kReadWrite) != 0) fail_out_of_memory(bytes);
  }
  void free_reserved_bytes(void* data, std::size_t bytes) noexcept override { munmap(data, bytes); }

 private:
  /// Threads of the calling thread's work.
  [[nodiscard]] int team_size() const { return std::min(threads_, omp_get_max_threads()); }

  /// One thread cannot saturate the memory bandwidth of a server, so large copies are split among threads. Copies
  /// larger than the last-level cache use non-temporal stores (memcpy decides so by one thread's share alone).
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    const int threads = team_size();
    const auto team = static_cast<int>(std::min(bytes / kCopyPerThread, static_cast<std::size_t>(threads)));
    if (team <= 1 || omp_in_parallel() != 0) {
      std::memcpy(to, from, bytes);
      return;
    }
    const bool streams = cache_bytes_ > 0 && 2 * bytes > cache_bytes_;
#pragma omp parallel num_threads(threads)
    {
      const auto parts = static_cast<std::size_t>(omp_get_num_threads());
      const auto part = static_cast<std::size_t>(omp_get_thread_num());
      const std::size_t share = round_up((bytes + parts - 1) / parts, kAlignment);
      const std::size_t begin = std::min(part * share, bytes);
      const std::size_t size = std::min(share, bytes - begin);
      const auto target = static_cast<std::byte*>(to) + begin;
      const auto source = static_cast<const std::byte*>(from) + begin;
      if (streams) {
        stream_copy(target, source, size);
        finish_streaming();
      } else if (size > 0) {
        std::memcpy(target, source, size);
      }
    }
  }

  int threads_;
  CpuIsa isa_;
  std::size_t cache_bytes_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  if (threads < 0)
    fail_usage("threads is {}; expected 0 (all that the affinity mask allows) or a positive count", threads);
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace headroom
