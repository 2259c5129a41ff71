#pragma once

#include <cstdint>
#include <memory>

#include "backends/backend.hpp"
#include "io/checkpoint.hpp"
#include "kernels/core/kernel.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// How an op is executed by itself.
enum class OpForm : std::uint8_t {
  kWhole,  ///< in one launch
  kApart,  ///< a fused op as its plain ops, one launch each; attention then materializes its scores
};

/// `spec` without its activation, if it has one.
[[nodiscard]] OpSpec bare(OpSpec spec);

/// A graph of that op alone, as its last node. Weights are params; those in i8 and f8e4m3 are quantized from one in
/// f32. The other operands are inputs.
[[nodiscard]] Graph graph_of(const OpSpec& spec);

/// One op by itself on dense random operands, with the kernel that a plan would choose. Kernel benchmarks and floors
/// use it. Weights are packed as in a model; they are of one dtype, f32 or bf16.
class OpRun {
 public:
  /// Throws Error with each kernel's reason if none runs `spec`. `backend` must outlive the object.
  OpRun(Backend& backend, const OpSpec& spec, OpForm form = OpForm::kWhole, NewWork new_work = NewWork::kMeasure);

  /// Launches it once and waits for it.
  void run() { session_->run(); }
  /// Submits the launch, to stream().
  void submit() { session_->submit(); }
  [[nodiscard]] Stream& stream() { return session_->stream(); }
  [[nodiscard]] Session& session() { return *session_; }
  /// The (first) launch: its kernel and cost.
  [[nodiscard]] const Step& step() const { return session_->program().steps.front(); }
  [[nodiscard]] const Program& program() const { return session_->program(); }
  /// The least work for bare(spec), in either form.
  [[nodiscard]] Cost least_work() const { return step().kernel->cost(bare(spec_)); }

 private:
  OpSpec spec_;
  Checkpoint checkpoint_;
  WeightStore weights_;
  std::unique_ptr<Session> session_;
};

}  // namespace headroom
