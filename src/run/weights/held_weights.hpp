#pragma once

#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/weights/folded_weight.hpp"

namespace headroom {

/// The weights that a session holds, and what orders its runs with changes of them: a change waits for the last use,
/// and the next use for the last change, each on its stream; the host waits for neither. That they come back is a
/// change.
class HeldWeights {
 public:
  /// Of `program`, which must outlive this. Changes are submitted to `changes`; `last_use` is recorded again at the end
  /// of each run.
  HeldWeights(const Program& program, std::vector<WeightHandle> weights, Backend& backend,
              std::shared_ptr<Stream> changes, std::shared_ptr<const Event> last_use);
  /// What is submitted to the stream of changes from now on comes after the last use.
  ~HeldWeights();
  HeldWeights(const HeldWeights&) = delete;
  HeldWeights& operator=(const HeldWeights&) = delete;

  /// In the order of Program::weights.
  [[nodiscard]] const std::vector<WeightHandle>& weights() const noexcept { return weights_; }

  /// What `stream` is given from now on reads the weights as they were changed last. Throws Error where they are
  /// unloaded.
  void wait_for_changes(Stream& stream);

  /// Whether any has changed since wait_for_changes().
  [[nodiscard]] bool has_changed() const noexcept { return is_changed_; }

  [[nodiscard]] bool is_of(const Program& program) const noexcept { return &program_ == &program; }
  [[nodiscard]] bool is_loaded() const noexcept { return is_loaded_; }
  void set_loaded(bool is_loaded) noexcept { is_loaded_ = is_loaded; }

  [[nodiscard]] bool holds(const WeightHandle& weight) const;
  [[nodiscard]] bool holds_any_of(const std::vector<WeightHandle>& others) const;
  /// Before what writes to the weights is submitted, and when it has been.
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
