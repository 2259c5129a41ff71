#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/probes/frame_times.hpp"

namespace headroom {

/// Settings that can be changed while a stream runs. A stream ignores those that do not apply to it: see
/// StreamFacts.
struct StreamControls {
  std::string prompt = {};
  std::string negative_prompt = {};
  std::int64_t steps = 1;     ///< calls of the denoiser per frame; a new number is planned once, which takes a moment
  double strength = 0.5;      ///< share of noise in the denoiser's initial input, more than 0 to 1
  double guidance_scale = 1;  ///< of residual guidance
  double similarity = 0;      ///< cosine similarity from which on frames may be skipped, below 1; 0 skips none
  std::uint64_t seed = 0;     ///< of the noise, which is the same for all frames
  bool paused = false;        ///< no frames are processed, and the last output remains, until it is resumed
  friend bool operator==(const StreamControls&, const StreamControls&) = default;
};

/// Properties of a stream that do not change while it runs.
struct StreamFacts {
  std::string model = {}, device = {}, switches = {};  ///< "sd-turbo", "NVIDIA H200", "lossless,fp16,stream-batch=2"
  std::int64_t width = 0, height = 0;                  ///< of a frame, in pixels
  double fps = 0;                                      ///< of the input; 0 if it is not paced
  /// The members of StreamControls that apply to it.
  bool takes_prompt = false, takes_negative_prompt = false, takes_steps = false, takes_strength = false,
       takes_guidance = false, takes_similarity = false, takes_seed = false, takes_pause = false;
};

/// Progress of a stream.
struct StreamCounters {
  std::int64_t shown = 0;     ///< output frames, including repeated ones
  std::int64_t repeated = 0;  ///< by the similarity filter
  std::int64_t dropped = 0;   ///< frames that were too late to be processed
  double fps = 0;             ///< shown frames per second, recently
  bool ended = false;         ///< no further frame follows
};

/// Shared state of a running stream and its viewers: the newest frame and its times in one direction, requested
/// controls in the other. Thread-safe. It never blocks the stream: the stream allocates nothing, and pixels are
/// copied only while somebody watches.
class LiveView {
 public:
  /// Number of latest frames whose times are kept.
  static constexpr std::size_t kRemembered = 1024;

  LiveView(StreamFacts facts, StreamControls controls);

  [[nodiscard]] const StreamFacts& facts() const noexcept { return facts_; }

  // For the stream.

  /// Publishes an output frame: RGB, `height * width * 3` bytes each.
  void show(const FrameTimes& times, std::span<const std::uint8_t> input, std::span<const std::uint8_t> output);
  void drop();  ///< counts a frame that was not processed
  void end();   ///< wakes all waiting threads
  /// The requested controls, if they changed since the last call.
  [[nodiscard]] std::optional<StreamControls> take_wanted();
  /// Reports the result of a request: `now` are the current controls, and `obstacle` is a sentence that says why it
  /// failed.
  void answer(const StreamControls& now, std::string obstacle = {});

  // For viewers.

  /// While it lives, pixels are copied for the viewer.
  class [[nodiscard]] Watching {
   public:
    explicit Watching(LiveView& view) : view_(view) { ++view_.watching_; }
    ~Watching() { --view_.watching_; }
    Watching(const Watching&) = delete;
    Watching& operator=(const Watching&) = delete;

   private:
    LiveView& view_;
  };
  /// A frame as it was shown.
  struct Frame {
    std::int64_t serial = 0;  ///< counts shown frames, from 1
    std::vector<std::uint8_t> input, output;
  };
  /// Waits for a frame after that serial and copies the newest one into `frame`, whose memory is reused. False on
  /// timeout, and if the stream has ended.
  bool wait_for_frame(std::int64_t after_serial, std::chrono::milliseconds at_most, Frame& frame);
  /// Times of the frames shown after that serial, at most the last kRemembered, oldest first; the newest has
  /// `serial`.
  struct Times {
    std::int64_t serial = 0;
    std::vector<FrameTimes> frames;
  };
  [[nodiscard]] Times times_after(std::int64_t serial) const;
  [[nodiscard]] StreamCounters counters() const;
  /// The current controls, and the reason why the last request failed, if it did.
  [[nodiscard]] StreamControls controls() const;
  [[nodiscard]] std::string obstacle() const;
  /// The requested controls, or the current ones if the request was answered. Changes of single values are based on
  /// it.
  [[nodiscard]] StreamControls goal() const;
  /// Requests new controls. Throws a usage Error, naming the value, if one is invalid or does not apply to the
  /// stream.
  void want(const StreamControls& controls);

 private:
  using Clock = std::chrono::steady_clock;

  const StreamFacts facts_;
  std::atomic<int> watching_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StreamControls controls_;
  StreamControls goal_;
  std::optional<StreamControls> wanted_;  // the goal, until the stream takes it
  std::string obstacle_;
  StreamCounters counters_;
  std::int64_t serial_ = 0;         // of the newest frame
  std::int64_t pixels_serial_ = 0;  // of the last copied pixels
  std::vector<std::uint8_t> input_, output_;
  std::array<FrameTimes, kRemembered> times_;            // ring buffer, indexed by serial
  std::array<Clock::time_point, kRemembered> shown_at_;  // likewise
};

}  // namespace headroom
