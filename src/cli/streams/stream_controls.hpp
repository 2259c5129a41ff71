#pragma once

#include <filesystem>
#include <string>

#include "cli/streams/live_view.hpp"
#include "pipelines/streams/frame_stream.hpp"

namespace headroom {

[[nodiscard]] StreamControls controls_of(const StreamRequest& request);
[[nodiscard]] StreamFacts facts_of(const FrameStream& stream, std::string device, double fps);

/// A file with a JSON object of requested controls, such as {"prompt": "oil painting", "strength": 0.4}
/// (change_controls()). It is read again whenever it changes.
class ControlFile {
 public:
  /// The file need not exist yet.
  explicit ControlFile(std::filesystem::path path) : path_(std::move(path)) {}
  /// Applies the file if it has changed. Returns a sentence about its error, or nothing.
  [[nodiscard]] std::string poll(LiveView& view);

 private:
  std::filesystem::path path_;
  std::filesystem::file_time_type changed_{};
  std::uintmax_t size_ = 0;
};

}  // namespace headroom
