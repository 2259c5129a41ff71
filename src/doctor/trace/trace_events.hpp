#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reads traces of torch.profiler (Chrome's format, plain or gzip) event by event. Traces are untrusted.
namespace headroom::doctor {

/// A complete event ("ph": "X"). Members that an event does not have are empty.
struct TraceEvent {
  std::string name, category;  ///< "aten::mm", "cpu_op"
  double begin_us = 0, duration_us = 0;
  std::string thread;                       ///< "pid/tid"
  std::optional<std::int64_t> correlation;  ///< of a launch and its kernel
  std::optional<std::int64_t> stream;
  double bytes = 0;                                   ///< of a copy
  std::vector<std::vector<std::int64_t>> input_dims;  ///< with record_shapes
  std::vector<std::string> input_types;
  [[nodiscard]] double end_us() const { return begin_us + duration_us; }
};

/// Splits the text of a trace into its events, as it arrives in parts of any size. Memory is bounded by the largest
/// event. Throws Error, naming `context`, for text that is no trace.
class TraceSplitter {
 public:
  using OnEvent = std::function<void(const TraceEvent& event)>;
  TraceSplitter(std::string context, OnEvent on_event);
  ~TraceSplitter();
  TraceSplitter(const TraceSplitter&) = delete;
  TraceSplitter& operator=(const TraceSplitter&) = delete;

  void add(std::string_view part);
  /// Call it after the last part: throws Error if the trace is cut off or has no list of events.
  void finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Reads a file. Throws Error, naming it, if it cannot be read, is cut off, or is no trace.
void read_trace(const std::filesystem::path& file, const TraceSplitter::OnEvent& on_event);

}  // namespace headroom::doctor
