#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace headroom {

/// An interval of time on one track of a trace.
struct TraceSlice {
  std::string name;
  std::string track;          ///< "stream 7", "cpu"
  std::int64_t start_ns = 0;  ///< on any clock, the same for all slices
  std::int64_t end_ns = 0;
  /// Shown when the slice is selected; viewers sum and sort numbers.
  std::vector<std::pair<std::string, std::variant<std::string, double>>> details = {};
};

/// Writes the slices in Chrome's trace event format (JSON), which chrome://tracing and ui.perfetto.dev read. Each
/// track name gets one track, in order of first appearance; times are relative to the first start. Slices of a track
/// never overlap: work that the device began before its predecessor ended is shown from that end on (own_ns() in
/// device_times.hpp).
[[nodiscard]] std::string to_chrome_trace(std::vector<TraceSlice> slices);

}  // namespace headroom
