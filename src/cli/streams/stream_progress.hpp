#pragma once

#include <chrono>
#include <cstdint>

#include "cli/streams/live_view.hpp"

namespace headroom {

/// Progress of a stream on standard error: a line that is overwritten on a terminal, otherwise a line every few
/// seconds.
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
