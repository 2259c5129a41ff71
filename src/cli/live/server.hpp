#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "cli/live/address.hpp"
#include "cli/live/connection.hpp"
#include "cli/streams/live_view.hpp"

namespace headroom {

struct LiveServerOptions {
  ConnectionLimits limits;
  std::size_t most_viewers = 16;                          ///< of moving pictures; a page has two
  std::size_t most_others = 8;                            ///< requests that are answered at the same time beside them
  std::size_t most_waiting = 64;                          ///< connections until somebody has time for them
  std::chrono::milliseconds preview_interval{1000 / 60};  ///< between two pictures
};

/// The page of a live stream: while it lives, browsers see the stream of `view` and may wish changes to it. Whatever they
/// do, the stream goes on: they see its newest frame when they are ready for one, and what they send is taken only from
/// this very page and checked (request_check.hpp, status.hpp).
class LiveServer {
 public:
  /// Throws Error where the address cannot be bound.
  LiveServer(LiveView& view, const LiveAddress& address, const LiveServerOptions& options = {});
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  /// What was bound, with the port that was free where any was asked for.
  [[nodiscard]] const LiveAddress& address() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

/// Says where the page is, and warns where others than this machine may see and change the stream.
void announce(const Log& log, const LiveServer& server);

}  // namespace headroom
