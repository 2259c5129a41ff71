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
  std::size_t most_viewers = 16;                          ///< connections that receive image streams; a page has two
  std::size_t most_others = 8;                            ///< other requests that are answered at the same time
  std::size_t most_waiting = 64;                          ///< connections that wait for a worker
  std::chrono::milliseconds preview_interval{1000 / 60};  ///< between two images
};

/// The web page of a live stream. While it lives, browsers can watch the stream of `view` and request changes.
/// Browsers never slow down the stream: they get its newest frame when they are ready for one. Changes are accepted
/// only from this page, and are checked (request_check.hpp, status.hpp).
class LiveServer {
 public:
  /// Throws Error if the address cannot be bound.
  LiveServer(LiveView& view, const LiveAddress& address, const LiveServerOptions& options = {});
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  /// The bound address, with the actual port if any free one was requested.
  [[nodiscard]] const LiveAddress& address() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

/// Logs the page's address, and warns if other machines may watch and change the stream.
void announce(const Log& log, const LiveServer& server);

}  // namespace headroom
