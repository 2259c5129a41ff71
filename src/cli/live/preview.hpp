#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cli/streams/live_view.hpp"

namespace headroom {

/// A frame of a stream as JPEGs.
struct PreviewFrame {
  std::int64_t serial = 0;  ///< counts shown frames, from 1
  std::string input, output;
};

/// Encodes the newest frames as JPEGs, once for all viewers and only while there is a viewer. Runs on its own
/// thread, whose priority is lower than the stream's.
class Preview {
 public:
  /// At most one frame per `interval`.
  Preview(LiveView& view, std::chrono::milliseconds interval);
  ~Preview();
  Preview(const Preview&) = delete;
  Preview& operator=(const Preview&) = delete;

  /// While it lives, JPEGs are made.
  class [[nodiscard]] Viewer {
   public:
    explicit Viewer(Preview& preview);
    ~Viewer();
    Viewer(const Viewer&) = delete;
    Viewer& operator=(const Viewer&) = delete;

   private:
    Preview& preview_;
  };

  /// Waits for a frame after `after_serial` and returns the newest; frames between are skipped. Null if there is
  /// none within `at_most`.
  [[nodiscard]] std::shared_ptr<const PreviewFrame> wait_for_frame(std::int64_t after_serial,
                                                                   std::chrono::milliseconds at_most);
  /// Whether the last frame of the stream was encoded.
  [[nodiscard]] bool has_ended() const;

 private:
  void work();
  void publish(const LiveView::Frame& frame);

  LiveView& view_;
  const std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int viewers_ = 0;
  bool is_stopping_ = false;
  bool has_ended_ = false;
  std::shared_ptr<const PreviewFrame> newest_;
  std::thread thread_;
};

/// Lowers the priority of this thread, for machines without enough cores for all threads.
void give_way_to_other_threads();

}  // namespace headroom
