#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace headroom {

/// Work below this many elements a thread is not worth waking a team for (a fork and join costs a few microseconds).
inline constexpr std::int64_t kElementsPerThread = 16384;

/// Items that hold at least kElementsPerThread elements together, when one holds `elements_per_item`.
[[nodiscard]] constexpr std::int64_t grain_of(std::int64_t elements_per_item) {
  return std::max<std::int64_t>(1, kElementsPerThread / std::max<std::int64_t>(1, elements_per_item));
}

/// Calls body(begin, end, thread) for consecutive ranges that cover [0, count), one range a thread, equal up to one
/// item. Runs serially, as thread 0, where there are not two grains of work or a parallel region is already open.
///
/// The team is always `threads` strong: libgomp ends the threads that a smaller team leaves over and has to start them
/// again for the next region.
template <typename Body>
void parallel_for(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (threads <= 1 || count < 2 * grain || omp_in_parallel() != 0) {
    body(std::int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t team = omp_get_num_threads();
    const int thread = omp_get_thread_num();
    const std::int64_t begin = count * thread / team;
    const std::int64_t end = count * (thread + 1) / team;
    if (begin < end) body(begin, end, thread);
  }
}

}  // namespace headroom
