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

/// A stream model compiled for frames of one size: frames in and frames out as 8-bit RGB, [height, width, 3]. All from the one to the
/// other is one graph. After it has been warmed up nothing is allocated until something else is asked for. One thread at a time.
class FrameStream {
 public:
  /// A frame's memory, which the device reads from and writes to without another copy: on a CPU it is bound, else page-locked.
  class Slot {
   public:
    [[nodiscard]] std::span<std::uint8_t> in() const noexcept { return in_; }
    /// What is shown; valid between wait() and the next submit().
    [[nodiscard]] std::span<std::uint8_t> out() const noexcept { return out_; }
    /// Whether that is what was shown before, because the filter skipped the frame.
    [[nodiscard]] bool is_repeated() const noexcept { return *repeated_ != 0; }

   private:
    friend class FrameStream;
    Buffer device_memory_;  // of a CPU
    std::unique_ptr<PageLockedMemory> locked_;
    std::span<std::uint8_t> in_, out_;
    std::uint8_t* repeated_ = nullptr;
    std::unique_ptr<Event> begun_, done_;
  };

  /// Compiles and loads. The first three must outlive it; the store has the model's checkpoints. Throws a usage Error for options that
  /// make no sense, and OutOfMemory where it does not fit.
  FrameStream(const StreamModel& model, Backend& backend, WeightStore& weights, const StreamOptions& options);
  ~FrameStream();
  FrameStream(const FrameStream&) = delete;
  FrameStream& operator=(const FrameStream&) = delete;

  [[nodiscard]] std::unique_ptr<Slot> make_slot();
  [[nodiscard]] std::size_t frame_bytes() const noexcept { return frame_bytes_; }

  /// Runs it on a slot until nothing more is set up, and begins anew.
  void warm_up(Slot& slot);
  /// Begins a stream at its first frame.
  void begin(std::span<const std::uint8_t> first);
  /// Submits a frame; what is made of it comes out of the run delay() later. Frames come out in the order in which they went in.
  void submit(Slot& slot);
  /// Until what came out of the slot's run is there.
  void wait(Slot& slot);

  /// Until all that was submitted is done.
  void synchronize() noexcept;

  /// From the next frame on: another prompt, seed, strength, guidance, threshold or number of steps. Plans anew only where the graph is
  /// another one, and keeps the last few of those. Throws a usage Error, and goes on as before, for what makes no sense, and for
  /// other steps of a batch, whose frames are under way. Size, switches and new_work stay the stream's, whatever `options` say of them; but
  /// its switch steps=N is gone, so that options.steps count.
  void change(const StreamOptions& options);

  [[nodiscard]] const StreamRequest& request() const noexcept { return request_; }
  [[nodiscard]] const StreamOptions& options() const noexcept { return options_; }
  [[nodiscard]] bool is_filtered() const noexcept { return request_.is_filtered; }
  [[nodiscard]] std::int64_t delay() const { return model_.delay(request_); }
  [[nodiscard]] const Compiled& compiled() const noexcept { return frame_->compiled; }
  [[nodiscard]] const Session& session() const noexcept { return *frame_->session; }
  [[nodiscard]] Session& session() noexcept { return *frame_->session; }
  [[nodiscard]] const StreamModel& model() const noexcept { return model_; }
  /// How often a graph was planned.
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
  SwitchSet switches_;              // those that are for it
  std::vector<Declined> declined_;  // the others
  PageLockingBackend* locking_;     // null where host memory is the device's own
  std::size_t frame_bytes_ = 0;
  std::shared_ptr<Offloader> offloader_;
  std::optional<PromptReader> reader_;
  std::shared_ptr<Stream> stream_;                              // of all sessions
  Buffer device_in_, device_out_, device_repeated_;             // where locking_ is not null
  std::map<std::string, std::unique_ptr<DeviceStage>> stages_;  // by structure
  std::vector<std::string> used_;                               // structures, the one used last behind
  DeviceStage* frame_ = nullptr;
  std::int64_t plans_ = 0;
};

}  // namespace headroom
