#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace headroom {

/// A stretch of time on a track of a trace.
struct TraceSlice {
  std::string name;
  std::string track;          ///< "stream 7", "cpu"
  std::int64_t start_ns = 0;  ///< on any clock, the same for all slices
  std::int64_t end_ns = 0;
  /// Shown where the slice is selected; viewers sum and sort numbers.
  std::vector<std::pair<std::string, std::variant<std::string, double>>> details = {};
};

/// The slices in Chrome's trace event format (JSON), which chrome://tracing and ui.perfetto.dev read: one track for
/// each name of one, in order of appearance, times from the first start on. Slices of a track never overlap: what the
/// device began before the one in front had ended begins where that ends, as it counts (device_times.hpp).
[[nodiscard]] std::string to_chrome_trace(std::vector<TraceSlice> slices);

}  // namespace headroom
