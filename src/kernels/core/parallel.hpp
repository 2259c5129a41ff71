#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/first_failure.hpp"

namespace headroom {

/// Work below this many elements a thread is not worth waking a team for (a fork and join costs a few microseconds).
inline constexpr std::int64_t kElementsPerThread = 16384;

/// Items that hold at least kElementsPerThread elements together, when one holds `elements_per_item`.
[[nodiscard]] constexpr std::int64_t grain_of(std::int64_t elements_per_item) {
  return std::max<std::int64_t>(1, kElementsPerThread / std::max<std::int64_t>(1, elements_per_item));
}

/// The rest of a range of items, from which several threads take parts.
class alignas(64) SharedRange {
 public:
  void assign(std::int64_t begin, std::int64_t end) {
    next_.store(begin, std::memory_order_relaxed);
    end_ = end;
  }
  struct Part {
    std::int64_t begin, end;
  };
  /// The next part: a quarter of the rest, but at least a grain, so that parts are large first and small when
  /// threads are about to finish. Empty at the end.
  [[nodiscard]] Part take(std::int64_t grain) {
    std::int64_t begin = next_.load(std::memory_order_relaxed);
    while (begin < end_) {
      const std::int64_t left = end_ - begin;
      const std::int64_t end = begin + std::min(left, std::max(grain, left / 4));
      if (next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) return {begin, end};
    }
    return {end_, end_};
  }

 private:
  std::atomic<std::int64_t> next_;
  std::int64_t end_;
};

/// Calls body(begin, end, thread) for consecutive ranges that cover [0, count). Each thread has a share of its own,
/// equal up to one item, and goes through it part by part; then it steals parts that others have left. A slower
/// core, by its kind or because other work runs on it, thus does less. While all cores are equally fast, each gets
/// the same items in every launch, in its own cache. Runs serially, as thread 0, if there are not two grains of
/// work or a parallel region is already open. The first exception of body is rethrown here, once the other threads
/// have finished the rest.
///
/// The team always has `threads` threads: libgomp ends the threads that a smaller team leaves over and has to start
/// them again for the next region.
template <typename Body>
void parallel_for(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (threads <= 1 || count < 2 * grain || omp_in_parallel() != 0) {
    body(std::int64_t{0}, count, 0);
    return;
  }
  constexpr int kMostShares = 64;  // more threads than that help from the start
  std::array<SharedRange, kMostShares> left;
  const int shares = std::min(threads, kMostShares);
  for (int share = 0; share < shares; ++share)
    left[static_cast<std::size_t>(share)].assign(count * share / shares, count * (share + 1) / shares);
  FirstFailure failure;
#pragma omp parallel num_threads(threads)
  failure.guard([&] {
    const int thread = omp_get_thread_num();
    for (int k = 0; k < shares; ++k) {
      SharedRange& share = left[static_cast<std::size_t>((thread + k) % shares)];
      for (auto part = share.take(grain); part.begin < part.end; part = share.take(grain))
        body(part.begin, part.end, thread);
    }
  });
  failure.rethrow();
}

}  // namespace headroom
