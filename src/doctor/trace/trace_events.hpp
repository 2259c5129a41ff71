#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// Reads traces of torch.profiler (Chrome's format, plain or gzip) event by event. Traces are untrusted.
namespace headroom::doctor {

/// The extents of an operand, outermost first; those of more than four are not kept (rank 0).
struct TracedShape {
  int rank = 0;
  std::array<std::int64_t, 4> extents{};
};

/// The members of a complete event ("ph": "X") that are used; one that an event does not have is empty. Texts are valid
/// until the function that got the event returns.
struct TraceEvent {
  std::string_view name, category;  ///< "aten::mm", "cpu_op"
  double begin_us = 0, duration_us = 0;
  std::optional<std::int64_t> correlation;        ///< of a launch and its kernel
  double bytes = 0;                               ///< of a copy
  std::array<std::string_view, 2> input_types{};  ///< of the first two inputs of an op, with record_shapes
  std::array<TracedShape, 2> input_shapes{};      ///< likewise
  [[nodiscard]] double end_us() const { return begin_us + duration_us; }
};

/// Splits the text of a trace into its events, as it arrives in parts of any size, in linear time. Memory is bounded by
/// the largest event and the largest part. Throws Error, naming `context`, for text that is no trace. Within an event
/// members that are not used are passed over; of repeated ones the last counts.
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
  /// The name of the trace's first GPU ("NVIDIA H200"), "" as long as none was read.
  [[nodiscard]] const std::string& device() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Reads a file, and returns the name of its first GPU, "" if it has none. Throws Error, naming it, if it cannot be
/// read, is cut off, or is no trace.
std::string read_trace(const std::filesystem::path& file, const TraceSplitter::OnEvent& on_event);

}  // namespace headroom::doctor
