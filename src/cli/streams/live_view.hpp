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

/// What can be changed while a stream runs. A stream that has no use for one ignores it: see StreamFacts.
struct StreamControls {
  std::string prompt = {};
  std::string negative_prompt = {};
  std::int64_t steps = 1;     ///< calls of the denoiser a frame; another number is planned once, which takes a moment
  double strength = 0.5;      ///< more than 0 to 1: how much of what the denoiser begins with is noise
  double guidance_scale = 1;  ///< of residual guidance
  double similarity = 0;      ///< cosine of frames from which on they may be skipped, below 1; 0 skips none
  std::uint64_t seed = 0;     ///< of the noise, which is the same for all frames
  bool paused = false;        ///< nothing is made of what comes, and the last frame stays, until it goes on
  friend bool operator==(const StreamControls&, const StreamControls&) = default;
};

/// What a stream is, which does not change while it runs.
struct StreamFacts {
  std::string model = {}, device = {}, switches = {};  ///< "sd-turbo", "NVIDIA H200", "lossless,fp16,stream-batch=2"
  std::int64_t width = 0, height = 0;                  ///< of a frame, in pixels
  double fps = 0;                                      ///< of the input; 0 where it is not paced
  /// Which of StreamControls it takes.
  bool takes_prompt = false, takes_negative_prompt = false, takes_steps = false, takes_strength = false,
       takes_guidance = false, takes_similarity = false, takes_seed = false, takes_pause = false;
};

/// How far a stream has come.
struct StreamCounters {
  std::int64_t shown = 0;     ///< frames given away, repeated ones among them
  std::int64_t repeated = 0;  ///< by the similarity filter
  std::int64_t dropped = 0;   ///< that came too late to be worked on
  double fps = 0;             ///< shown in a second, lately
  bool ended = false;         ///< no further frame comes
};

/// Where a running stream and those who watch it meet: the newest frame and its times on one side, what they wish on the
/// other. All of it may be called from any thread. The stream waits for nobody: it allocates nothing, and copies pixels
/// only while somebody watches.
class LiveView {
 public:
  /// Frames of whose times it remembers the last ones.
  static constexpr std::size_t kRemembered = 1024;

  LiveView(StreamFacts facts, StreamControls controls);

  [[nodiscard]] const StreamFacts& facts() const noexcept { return facts_; }

  // For the stream.

  /// A frame that has been given away: RGB, `height * width * 3` bytes each.
  void show(const FrameTimes& times, std::span<const std::uint8_t> input, std::span<const std::uint8_t> output);
  void drop();  ///< counts a frame that nobody worked on
  void end();   ///< wakes all who wait
  /// What is wished for, where that has changed since it was last taken.
  [[nodiscard]] std::optional<StreamControls> take_wanted();
  /// A wish that came true, or did not: `obstacle` says why in a sentence, and `now` is what goes on.
  void answer(const StreamControls& now, std::string obstacle = {});

  // For those who watch.

  /// While it lives, pixels are copied for it.
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
    std::int64_t serial = 0;  ///< counts what was shown, 1 first
    std::vector<std::uint8_t> input, output;
  };
  /// Waits until a frame behind that serial is there, and copies the newest into `frame`, whose memory is used again. False
  /// where there is none by then, and where the stream has ended.
  bool wait_for_frame(std::int64_t after_serial, std::chrono::milliseconds at_most, Frame& frame);
  /// Times of frames shown behind that serial, at most the last kRemembered, oldest first; the newest has `serial`.
  struct Times {
    std::int64_t serial = 0;
    std::vector<FrameTimes> frames;
  };
  [[nodiscard]] Times times_after(std::int64_t serial) const;
  [[nodiscard]] StreamCounters counters() const;
  /// What the stream goes by now, and why the last wish did not come true, where it did not.
  [[nodiscard]] StreamControls controls() const;
  [[nodiscard]] std::string obstacle() const;
  /// What was wished for last, or what goes on where that has been answered: what a change to one of them starts from.
  [[nodiscard]] StreamControls goal() const;
  /// Throws a usage Error, naming the value, for one that makes no sense or that the stream does not take.
  void want(const StreamControls& controls);

 private:
  using Clock = std::chrono::steady_clock;

  const StreamFacts facts_;
  std::atomic<int> watching_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StreamControls controls_;
  StreamControls goal_;
  std::optional<StreamControls> wanted_;  // the goal, until it is taken
  std::string obstacle_;
  StreamCounters counters_;
  std::int64_t serial_ = 0;         // of the newest frame
  std::int64_t pixels_serial_ = 0;  // of the pixels that were copied last
  std::vector<std::uint8_t> input_, output_;
  std::array<FrameTimes, kRemembered> times_;            // by serial, round and round
  std::array<Clock::time_point, kRemembered> shown_at_;  // likewise
};

}  // namespace headroom
