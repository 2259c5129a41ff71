#pragma once

#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/weights/folded_weight.hpp"

namespace headroom {

/// The weights that a session holds, and the events that order its runs with changes of the weights. A change waits
/// for the last use, and the next use waits for the last change, each on its stream; the host waits for neither.
/// Reloading is a change.
class HeldWeights {
 public:
  /// The weights of `program`, which must outlive this. Changes are submitted to the stream `changes`. `last_use` is
  /// recorded again at the end of each run.
  HeldWeights(const Program& program, std::vector<WeightHandle> weights, Backend& backend,
              std::shared_ptr<Stream> changes, std::shared_ptr<const Event> last_use);
  /// Later work on the stream of changes runs after the last use.
  ~HeldWeights();
  HeldWeights(const HeldWeights&) = delete;
  HeldWeights& operator=(const HeldWeights&) = delete;

  /// In the order of Program::weights.
  [[nodiscard]] const std::vector<WeightHandle>& weights() const noexcept { return weights_; }

  /// Later work on `stream` reads the weights as changed last. Throws Error if they are unloaded.
  void wait_for_changes(Stream& stream);

  /// Whether a weight has changed since wait_for_changes().
  [[nodiscard]] bool has_changed() const noexcept { return is_changed_; }

  [[nodiscard]] bool is_of(const Program& program) const noexcept { return &program_ == &program; }
  [[nodiscard]] bool is_loaded() const noexcept { return is_loaded_; }
  void set_loaded(bool is_loaded) noexcept { is_loaded_ = is_loaded; }

  [[nodiscard]] bool holds(const WeightHandle& weight) const;
  [[nodiscard]] bool holds_any_of(const std::vector<WeightHandle>& others) const;
  /// Called before and after writes to the weights are submitted.
  void begin_change();
  void end_change();

 private:
  const Program& program_;
  std::vector<WeightHandle> weights_;
  std::shared_ptr<Stream> changes_;
  std::shared_ptr<const Event> last_use_;
  std::unique_ptr<Event> last_change_;
  bool is_changed_ = false;  // since the last run began
  bool is_loaded_ = true;
};

}  // namespace headroom
