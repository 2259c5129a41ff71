#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/page_locked.hpp"
#include "pipelines/stages/device_stage.hpp"
#include "pipelines/stages/prompt_reader.hpp"
#include "pipelines/streams/stream_model.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// A stream model compiled for frames of one size, 8-bit RGB [height, width, 3] in and out. One graph computes the
/// output from the input. After the warm-up nothing is allocated until an option changes. Not thread-safe.
class FrameStream {
 public:
  /// The host memory of a frame, which the device reads and writes without another copy: bound on a CPU, otherwise
  /// page-locked.
  class Slot {
   public:
    [[nodiscard]] std::span<std::uint8_t> in() const noexcept { return in_; }
    /// The frame to show; valid between wait() and the next submit().
    [[nodiscard]] std::span<std::uint8_t> out() const noexcept { return out_; }
    /// Whether the previous output is repeated because the filter skipped the frame.
    [[nodiscard]] bool is_repeated() const noexcept { return *repeated_ != 0; }

   private:
    friend class FrameStream;
    Buffer device_memory_;  // on a CPU
    std::unique_ptr<PageLockedMemory> locked_;
    std::span<std::uint8_t> in_, out_;
    std::uint8_t* repeated_ = nullptr;
    std::unique_ptr<Event> begun_, done_;
  };

  /// Compiles and loads. Model, backend and store must outlive it; the store has the model's checkpoints. Throws a
  /// usage Error for invalid options, and OutOfMemory if it does not fit.
  FrameStream(const StreamModel& model, Backend& backend, WeightStore& weights, const StreamOptions& options);
  ~FrameStream();
  FrameStream(const FrameStream&) = delete;
  FrameStream& operator=(const FrameStream&) = delete;

  [[nodiscard]] std::unique_ptr<Slot> make_slot();
  [[nodiscard]] std::size_t frame_bytes() const noexcept { return frame_bytes_; }

  /// Runs on a slot until all setup is done, then starts the stream again.
  void warm_up(Slot& slot);
  /// Starts a stream at its first frame.
  void begin(std::span<const std::uint8_t> first);
  /// Submits a frame. Its result is the output of the run delay() runs later. Frames come out in the order in which
  /// they were submitted.
  void submit(Slot& slot);
  /// Waits for the result of the slot's run.
  void wait(Slot& slot);

  /// Waits for all submitted work.
  void synchronize() noexcept;

  /// Changes the prompt, seed, strength, guidance, threshold or number of steps from the next frame on. Plans only if
  /// the graph changes, and keeps the most recent graphs. Throws a usage Error for invalid options and for other
  /// steps of a batch, whose frames are in progress; the stream then goes on unchanged. Size, switches and new_work
  /// of `options` are ignored. The stream's switch steps=N is dropped, so that options.steps applies.
  void change(const StreamOptions& options);

  [[nodiscard]] const StreamRequest& request() const noexcept { return request_; }
  [[nodiscard]] const StreamOptions& options() const noexcept { return options_; }
  [[nodiscard]] bool is_filtered() const noexcept { return request_.is_filtered; }
  [[nodiscard]] std::int64_t delay() const { return model_.delay(request_); }
  [[nodiscard]] const Compiled& compiled() const noexcept { return frame_->compiled; }
  [[nodiscard]] const Session& session() const noexcept { return *frame_->session; }
  [[nodiscard]] Session& session() noexcept { return *frame_->session; }
  [[nodiscard]] const StreamModel& model() const noexcept { return model_; }
  /// The number of planned graphs.
  [[nodiscard]] std::int64_t plans() const noexcept { return plans_; }

 private:
  [[nodiscard]] DeviceStage& stage_of(const StreamRequest& request);
  void bind_on_device(Session& frame);
  void set_all(DeviceStage& stage, const StreamRequest& request);
  void set_texts(Session& session, const StreamRequest& request);
  void carry_states(Session& from, Session& to) const;

  const StreamModel& model_;
  Backend& backend_;
  WeightStore& weights_;
  StreamOptions options_;
  StreamRequest request_;
  SwitchSet switches_;              // that apply to it
  std::vector<Declined> declined_;  // the others
  PageLockingBackend* locking_;     // null if host memory is the device's own
  std::size_t frame_bytes_ = 0;
  std::shared_ptr<Offloader> offloader_;
  std::optional<PromptReader> reader_;
  std::shared_ptr<Stream> stream_;                              // shared by all sessions
  Buffer device_in_, device_out_, device_repeated_;             // if locking_ is not null
  std::map<std::string, std::unique_ptr<DeviceStage>> stages_;  // by structure
  std::vector<std::string> used_;                               // structures, the most recently used one last
  DeviceStage* frame_ = nullptr;
  std::int64_t plans_ = 0;
};

}  // namespace headroom
