#include "cli/streams/stream_runner.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/text/format.hpp"

namespace headroom {
namespace stream_runner {

using Clock = std::chrono::steady_clock;
using Moment = Clock::time_point;

constexpr std::size_t kSlots =
    6;  // one each at the reader, the device and the writer, and one waiting between each pair
// by device and writer: leaves one to read, and one that waits or is dropped
constexpr std::size_t kMostHeld = kSlots - 2;
constexpr std::size_t kInFlight = 2;                    // frames submitted to the device
constexpr auto kLook = std::chrono::milliseconds(100);  // interval of checks whether the stream ends
constexpr auto kPatience =
    std::chrono::milliseconds(2000);  // for a thread that waits for a pipe after the end of the stream

inline double ms_between(Moment from, Moment to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// A frame in the pipeline, with the times of its stages.
struct Frame {
  std::unique_ptr<FrameStream::Slot> slot;
  std::int64_t number = 0;
  Moment arrived, read_begun, read, submitted;
  double busy_before_ms = 0;  // device time so far, when the frame was submitted
  FrameTimes times;           // of the frame that came out of this run, once it is done
  Moment out_arrived, out_done;
};
using FramePtr = std::unique_ptr<Frame>;

/// Runs a function at the end of a scope, also on an exception.
template <class Body>
class Finally {
 public:
  explicit Finally(Body body) : body_(std::move(body)) {}
  ~Finally() { body_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  Body body_;
};

/// Data of a frame that entered a batch and has not come out yet.
struct UnderWay {
  std::int64_t number = 0;
  Moment arrived;
  double decode_ms = 0, busy_before_ms = 0;
};

}  // namespace stream_runner

using namespace stream_runner;

/// State shared by the threads; lives as long as the last of them.
class StreamRunner::Shared {
 public:
  Shared(std::unique_ptr<VideoReader> reader, std::unique_ptr<VideoWriter> writer, LiveView& view,
         const StreamRunOptions& options)
      : reader_(std::move(reader)), writer_(std::move(writer)), view_(view), options_(options) {}

  void add_free(FramePtr frame) { free_.push_back(std::move(frame)); }

  // Used by the reader's thread.

  void read_all() {
    try {
      const Moment start = Clock::now();
      for (std::int64_t number = 0; options_.frames < 0 || number < options_.frames; ++number) {
        FramePtr frame = take_to_read();
        if (frame == nullptr) break;
        frame->number = number;
        if (options_.fps) {
          frame->arrived = start + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(static_cast<double>(number) / *options_.fps));
          if (!wait_until(frame->arrived)) break;
        }
        frame->read_begun = Clock::now();
        if (!reader_->read(frame->slot->in())) break;
        frame->read = Clock::now();
        if (has_ended()) break;  // the end came while this thread waited for a pipe; other members may be gone
        if (!options_.fps) frame->arrived = options_.is_live ? frame->read : frame->read_begun;
        if (options_.is_live && !options_.fps) frame->read_begun = frame->read;
        put_read(std::move(frame));
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      input_error_ = error.what();
    }
    const std::lock_guard lock(mutex_);
    input_ended_ = true;
    reader_done_ = true;
    changed_.notify_all();
  }

  // Used by the device's thread.

  /// The next frame, if it arrives in time. Null on timeout, while paused, and at the end; has_more() tells these
  /// apart.
  FramePtr take_read(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return !is_paused_ && !read_.empty() && held_ < kMostHeld; };
    changed_.wait_for(lock, at_most, [&] { return is_there() || (read_.empty() && input_ended_) || output_failed_; });
    return is_there() ? hold(read_) : nullptr;
  }
  [[nodiscard]] bool has_more() {
    const std::lock_guard lock(mutex_);
    return output_failed_ == nullptr && (!read_.empty() || !input_ended_);
  }
  void put_done(FramePtr frame) { put(done_, std::move(frame)); }
  void put_free(FramePtr frame) {
    const std::lock_guard lock(mutex_);
    --held_;
    free_.push_back(std::move(frame));
    changed_.notify_all();
  }
  FramePtr take_free() {  // after the end of the input
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !free_.empty() || output_failed_ != nullptr; });
    return hold(free_);
  }
  /// While paused, a camera's frames are dropped, including waiting ones, and no other frames are read.
  void set_paused(bool is_paused) {
    const std::lock_guard lock(mutex_);
    is_paused_ = is_paused;
    if (is_paused_ && is_camera()) drop_waiting();
    changed_.notify_all();
  }
  /// Stops reading frames.
  void end_input() {
    const std::lock_guard lock(mutex_);
    input_ended_ = true;
    changed_.notify_all();
  }
  /// Stops processing frames.
  void end_work() {
    const std::lock_guard lock(mutex_);
    work_ended_ = true;
    changed_.notify_all();
  }

  // Used by the writer's thread.

  void write_all() {
    try {
      while (FramePtr frame = take_done()) {
        const Moment begun = Clock::now();
        if (frame->times.frame >= 0) {
          writer_->write(frame->slot->out());
          note_shown(*frame, begun, Clock::now());
        }
        put_free(std::move(frame));
      }
      if (shown() > 0) writer_->finish();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      output_failed_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    writer_done_ = true;
    changed_.notify_all();
  }

  // Used by all threads.

  /// Whether the threads have ended within that time.
  bool wait_for_reader(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return reader_done_; });
  }
  bool wait_for_writer(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return writer_done_; });
  }
  [[nodiscard]] std::exception_ptr output_failure() {
    const std::lock_guard lock(mutex_);
    return output_failed_;
  }
  [[nodiscard]] std::string input_error() {
    const std::lock_guard lock(mutex_);
    return input_error_;
  }
  template <class Body>
  auto with_log(const Body& body) {
    const std::lock_guard lock(log_mutex_);
    return body(log_);
  }
  [[nodiscard]] std::int64_t shown() {
    return with_log([](const LatencyLog& log) { return log.shown(); });
  }
  void note_start(Moment start) { start_ = start; }
  [[nodiscard]] double seconds() const { return ms_between(start_, last_out_) / 1000; }

 private:
  [[nodiscard]] bool has_ended() {
    const std::lock_guard lock(mutex_);
    return input_ended_;
  }
  /// Whether frames arrive at their own pace, even if nobody takes them.
  [[nodiscard]] bool is_camera() const { return options_.is_live || options_.fps.has_value(); }
  static FramePtr take(std::deque<FramePtr>& from) {
    if (from.empty()) return nullptr;
    FramePtr frame = std::move(from.front());
    from.pop_front();
    return frame;
  }
  /// Reserves a frame for the device, until the writer has finished it.
  FramePtr hold(std::deque<FramePtr>& from) {
    FramePtr frame = take(from);
    if (frame != nullptr) ++held_;
    return frame;
  }
  void put(std::deque<FramePtr>& into, FramePtr frame) {
    const std::lock_guard lock(mutex_);
    into.push_back(std::move(frame));
    changed_.notify_all();
  }

  /// A slot for the next frame; null when the stream has ended. If frames may be dropped and no slot is free, takes
  /// the slot of the frame that has waited longest.
  FramePtr take_to_read() {
    std::unique_lock lock(mutex_);
    const auto may_read = [&] { return is_camera() || !is_paused_; };
    const auto is_there = [&] { return !free_.empty() || (options_.drops && !read_.empty()); };
    changed_.wait(lock, [&] { return (may_read() && is_there()) || input_ended_; });
    if (input_ended_) return nullptr;
    if (!free_.empty()) return take(free_);
    note_dropped();
    return take(read_);
  }
  void put_read(FramePtr frame) {
    const std::lock_guard lock(mutex_);
    const bool is_unwanted = is_paused_ && is_camera();
    if (options_.drops) drop_waiting();
    read_.push_back(std::move(frame));
    if (is_unwanted) drop_waiting();
    changed_.notify_all();
  }
  void drop_waiting() {
    while (!read_.empty()) {
      note_dropped();
      free_.push_back(take(read_));
    }
  }
  bool wait_until(Moment moment) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, moment, [&] { return input_ended_; });
    return !input_ended_;
  }
  FramePtr take_done() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !done_.empty() || work_ended_; });
    return take(done_);
  }
  void note_dropped() {
    with_log([](LatencyLog& log) { log.drop(); });
    view_.drop();
  }
  /// Records the parts of a frame's time; the remainder is waiting time.
  void note_shown(Frame& frame, Moment begun, Moment written) {
    FrameTimes& times = frame.times;
    times.latency_ms = ms_between(frame.out_arrived, written);
    times.arrived_ms = std::max(ms_between(start_, frame.out_arrived), 0.0);
    times.encode_ms = ms_between(begun, written);
    times.queue_ms = std::max(times.latency_ms - times.decode_ms - times.device_ms - times.encode_ms, 0.0);
    last_out_ = written;
    with_log([&](LatencyLog& log) { log.add(times); });
    view_.show(times, frame.slot->in(), frame.slot->out());
  }

  std::unique_ptr<VideoReader> reader_;
  std::unique_ptr<VideoWriter> writer_;
  LiveView& view_;
  StreamRunOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FramePtr> free_, read_, done_;
  std::size_t held_ = 0;  // by the device and the writer
  bool is_paused_ = false;
  bool input_ended_ = false, work_ended_ = false, reader_done_ = false, writer_done_ = false;
  std::string input_error_;
  std::exception_ptr output_failed_;
  std::mutex log_mutex_;
  LatencyLog log_;
  Moment start_, last_out_;
};

StreamRunner::StreamRunner(std::unique_ptr<VideoReader> reader, std::unique_ptr<VideoWriter> writer,
                           FrameStream& stream, LiveView& view, const StreamRunOptions& options)
    : shared_(std::make_shared<Shared>(std::move(reader), std::move(writer), view, options)),
      stream_(stream),
      view_(view),
      options_(options) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    auto frame = std::make_unique<Frame>();
    frame->slot = stream.make_slot();
    if (i == 0) stream.warm_up(*frame->slot);
    shared_->add_free(std::move(frame));
  }
}

StreamRunner::~StreamRunner() = default;

/// Applies the viewers' requests, from the next frame on.
void StreamRunner::apply_wishes() {
  const std::optional<StreamControls> wish = view_.take_wanted();
  if (!wish) return;
  const StreamControls before = view_.controls();
  StreamControls but_for_pause = *wish;
  but_for_pause.paused = before.paused;
  StreamOptions options = stream_.options();
  options.prompt = wish->prompt;
  options.negative_prompt = wish->negative_prompt;
  options.steps = wish->steps;
  options.strength = wish->strength;
  options.guidance_scale = wish->guidance_scale;
  options.similarity = wish->similarity;
  options.seed = wish->seed;
  try {
    if (but_for_pause != before) stream_.change(options);
    shared_->set_paused(wish->paused);
    view_.answer(*wish);
  } catch (const Error& error) {
    view_.answer(before, error.what());
  }
}

/// Sends frames through the device as long as they arrive. Returns whether it was interrupted.
bool StreamRunner::work(const std::function<void(const LatencyLog& log)>& on_frame) {
  std::deque<FramePtr> in_flight;
  const Finally done_with_slots([&] { stream_.synchronize(); });  // before the slots are destroyed
  std::deque<UnderWay> under_way;                                 // frames in the batch
  Moment last_done = Clock::now();
  double busy_ms = 0;  // device time so far
  bool has_begun = false;
  const std::int64_t delay = stream_.delay();

  const auto submit = [&](FramePtr frame) {
    frame->submitted = Clock::now();
    stream_.submit(*frame->slot);
    in_flight.push_back(std::move(frame));
  };
  const auto finish_first = [&] {
    FramePtr frame = std::move(in_flight.front());
    in_flight.pop_front();
    stream_.wait(*frame->slot);
    const Moment done = Clock::now();
    const double run_ms = ms_between(std::max(frame->submitted, last_done), done);
    last_done = done;
    if (frame->number >= 0)
      under_way.push_back({.number = frame->number,
                           .arrived = frame->arrived,
                           .decode_ms = ms_between(frame->read_begun, frame->read),
                           .busy_before_ms = busy_ms});
    busy_ms += run_ms;
    frame->times = {.frame = -1};
    if (std::ssize(under_way) > delay || (frame->number < 0 && !under_way.empty())) {
      const UnderWay& out = under_way.front();
      frame->times = {.frame = out.number,
                      .decode_ms = out.decode_ms,
                      .device_ms = busy_ms - out.busy_before_ms,
                      .repeated = stream_.is_filtered() && frame->slot->is_repeated()};
      frame->out_arrived = out.arrived;
      under_way.pop_front();
    }
    shared_->put_done(std::move(frame));
  };
  const auto tell = [&] {
    if (on_frame) shared_->with_log([&](const LatencyLog& log) { on_frame(log); });
  };

  bool is_interrupted = false;
  while (shared_->has_more()) {
    try {
      Interruptible::check();
    } catch (const Interrupted&) {
      is_interrupted = true;
      break;
    }
    apply_wishes();
    FramePtr frame = shared_->take_read(in_flight.empty() ? kLook : std::chrono::milliseconds(0));
    if (frame != nullptr) {
      if (!has_begun) stream_.begin(frame->slot->in());
      has_begun = true;
      submit(std::move(frame));
      if (in_flight.size() < kInFlight) continue;
    }
    if (!in_flight.empty()) finish_first();
    tell();
  }
  while (!in_flight.empty()) finish_first();
  // Frames still in the batch are flushed by repeating the last input.
  while (!under_way.empty() && shared_->output_failure() == nullptr) {
    FramePtr frame = shared_->take_free();
    if (frame == nullptr) break;
    frame->number = -1;
    submit(std::move(frame));
    finish_first();
  }
  return is_interrupted;
}

StreamEnd StreamRunner::run(const std::function<void(const LatencyLog& log)>& on_frame) {
  shared_->note_start(Clock::now());
  // Each thread shares ownership of the state it needs, since one that waits for a pipe at the end is abandoned.
  std::thread writer([shared = shared_] { shared->write_all(); });
  std::thread reader;
  try {
    reader = std::thread([shared = shared_] { shared->read_all(); });
  } catch (...) {  // only one more thread could be started
    shared_->end_work();
    writer.join();
    throw;
  }
  bool is_interrupted = false;
  std::exception_ptr failure;
  try {
    is_interrupted = work(on_frame);
  } catch (...) {
    failure = std::current_exception();
  }
  shared_->end_input();
  shared_->end_work();
  const bool is_written =
      shared_->wait_for_writer(is_interrupted || failure ? kPatience : std::chrono::hours(24 * 365));
  is_written ? writer.join() : writer.detach();
  const bool is_read = shared_->wait_for_reader(kPatience);
  is_read ? reader.join() : reader.detach();
  // The state of an abandoned thread is leaked on purpose: it stays until the process ends, and is never destroyed
  // after the allocator that its memory came from.
  if (!is_written || !is_read) static_cast<void>(new std::shared_ptr<Shared>(shared_));
  view_.end();
  if (failure) std::rethrow_exception(failure);
  if (shared_->output_failure()) std::rethrow_exception(shared_->output_failure());
  if (!is_written) fail("cannot write the last frames to the output");
  StreamEnd end{.latency = {}, .input_error = shared_->input_error(), .is_interrupted = is_interrupted};
  if (shared_->shown() == 0) {
    if (is_interrupted) return end;
    if (!end.input_error.empty()) fail("{}", end.input_error);
    const std::int64_t dropped = shared_->with_log([](const LatencyLog& log) { return log.dropped(); });
    if (dropped > 0) fail("no frame was shown: {} came, and were dropped", format_count(dropped, "frame"));
    fail("the input has no frame");
  }
  end.latency = shared_->with_log(
      [&](const LatencyLog& log) { return log.record(options_.fps, options_.drops, shared_->seconds()); });
  return end;
}

}  // namespace headroom
