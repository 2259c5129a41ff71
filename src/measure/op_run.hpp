#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "io/checkpoint.hpp"
#include "kernels/kernel.hpp"
#include "measure/trials.hpp"
#include "run/session.hpp"
#include "run/weight_store.hpp"

namespace headroom {

/// One op by itself on dense random operands, with the kernel that a plan would choose: what kernel benchmarks time and
/// floors are taken from. Weights are packed as in a model; they are of one dtype, f32 or bf16.
class OpRun {
 public:
  /// Throws Error with each kernel's reason where none runs `spec`. `backend` must outlive the object.
  OpRun(Backend& backend, const OpSpec& spec);

  /// Launches the kernel once and waits for it.
  void run() { session_->run(); }
  /// Submits the launch, to stream().
  void submit() { session_->submit(); }
  [[nodiscard]] Stream& stream() { return session_->stream(); }
  /// The kernel and its cost.
  [[nodiscard]] const Step& step() const { return session_->program().steps.front(); }
  [[nodiscard]] const Program& program() const { return session_->program(); }

 private:
  Checkpoint checkpoint_;
  WeightStore weights_;
  std::unique_ptr<Session> session_;
};

/// `spec` with the output types that its op gives.
[[nodiscard]] OpSpec infer_spec(OpSpec spec);

/// How an op or a copy is timed: calls of microseconds are batched to a millisecond, so that the clock does not show.
[[nodiscard]] Protocol short_protocol(double max_seconds);

/// Times of one `submit`, which gives the stream a piece of work whose addresses never change. On a GPU many are
/// recorded and replayed one behind the other, so that neither launches nor waiting are in their times.
[[nodiscard]] Trials time_submissions(Backend& backend, Stream& stream, const std::function<void()>& submit,
                                      const Protocol& protocol);

/// Median milliseconds to copy `bytes` on the device (read once and written once), all threads of a CPU at work.
[[nodiscard]] Trials time_copy(Backend& backend, std::size_t bytes, const Protocol& protocol);

}  // namespace headroom
