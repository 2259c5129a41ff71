#pragma once

#include <chrono>
#include <cstdint>

#include "cli/streams/live_view.hpp"

namespace headroom {

/// How a stream goes on, on standard error: a line that is written again on a terminal, and else one every few seconds.
class StreamProgress {
 public:
  explicit StreamProgress(bool quiet);
  ~StreamProgress() { finish(); }
  StreamProgress(const StreamProgress&) = delete;
  StreamProgress& operator=(const StreamProgress&) = delete;

  void show(std::int64_t shown, std::int64_t dropped, const LiveView& view);
  /// Ends the line.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  bool quiet_, is_terminal_;
  bool on_line_ = false;
  Clock::time_point last_;
};

}  // namespace headroom
