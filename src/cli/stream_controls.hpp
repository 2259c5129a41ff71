#pragma once

#include <filesystem>
#include <string>

#include "cli/live_view.hpp"
#include "pipelines/frame_stream.hpp"

namespace headroom {

[[nodiscard]] StreamControls controls_of(const StreamRequest& request);
[[nodiscard]] StreamFacts facts_of(const FrameStream& stream, std::string device, double fps);

/// Reads what is wished for from a JSON object, such as {"prompt": "oil painting", "strength": 0.4}: what it does not name stays. Throws
/// Error, naming the member, for what is none of StreamControls or of another type.
[[nodiscard]] StreamControls parse_controls(const std::string& text, const std::string& context,
                                            const StreamControls& now);

/// A file with such an object, which is read again whenever it changes.
class ControlFile {
 public:
  /// The file need not be there yet.
  explicit ControlFile(std::filesystem::path path) : path_(std::move(path)) {}
  /// Hands on what it says, where it has changed. Returns what is wrong with it in a sentence, or nothing.
  [[nodiscard]] std::string poll(LiveView& view);

 private:
  std::filesystem::path path_;
  std::filesystem::file_time_type changed_{};
  std::uintmax_t size_ = 0;
};

}  // namespace headroom
