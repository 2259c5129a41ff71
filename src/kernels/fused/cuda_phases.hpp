#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "kernels/fused/cuda_source.hpp"

namespace headroom::cuda {

/// Whether a result may overwrite a load's operand (Kernel::may_overwrite), which is then read before it is written.
/// No other operand is ever written.
[[nodiscard]] bool may_be_written(const BoundProgram& bound, int access);

/// Assigns the steps of a program to phases. A phase ends in reductions, whose results the next phase reads. A wide
/// step is computed in the first phase that needs it; its values are then kept for later phases, or recomputed in
/// each.
///
/// A sum of squared deviations from the row's mean is reduced together with the sum for that mean. Each thread's
/// squares are about its own mean, and are merged with those of other threads (Chan, Golub and LeVeque 1979). A
/// norm's two sums thus end one phase, not two.
class Phases {
 public:
  Phases(const BoundProgram& bound, bool is_reread);

  /// The last phase.
  [[nodiscard]] int last() const { return last_; }
  /// The first phase in which it could be computed.
  [[nodiscard]] int level(int step) const { return level_[at(step)]; }
  [[nodiscard]] bool is_wide(int step) const { return is_wide_[at(step)]; }
  /// Whether a thread keeps the step's value from one phase to the next: for a load the bits that were read,
  /// otherwise floats.
  [[nodiscard]] bool is_kept(int step) const { return is_kept_[at(step)]; }
  /// The phase that computes the step, or the first of several.
  [[nodiscard]] int first(int step) const { return *needed_[at(step)].begin(); }
  /// Whether the step is a wide load that the first phase needs.
  [[nodiscard]] bool is_first_read(int step) const {
    return steps_[at(step)].what == RowProgram::Do::kLoad && is_wide(step) && first(step) == 0;
  }
  /// For a sum of squared deviations from a mean, the step that sums for the mean; -1 for all other steps.
  [[nodiscard]] int sum_of_squares(int step) const { return sum_of_squares_[at(step)]; }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  void find_level(std::size_t i, const BoundProgram& bound);
  [[nodiscard]] int find_sum_of_squares(std::size_t i, std::int64_t columns) const;
  [[nodiscard]] std::array<int, 3> args_of(std::size_t i) const;
  [[nodiscard]] bool is_cheap(const RowProgram::Step& step) const;

  const std::vector<RowProgram::Step>& steps_;
  std::vector<int> level_, sum_of_squares_;
  std::vector<bool> is_wide_, is_kept_;
  std::vector<std::set<int>> needed_;  // phases
  int last_ = 0;
};

/// The loads, by their steps, that persistent blocks prefetch in packs of `width` columns: those with rows of their
/// own, needed in the first phase, and with packs of 16 bytes.
[[nodiscard]] std::set<int> fetched_loads(const BoundProgram& bound, int width);

/// Wide steps with the same value in all rows that differ only in the innermost outer axis.
struct CommonSteps {
  std::set<int> all;
  std::set<int> used;  ///< by other steps, or as results
};
[[nodiscard]] CommonSteps common_steps(const BoundProgram& bound, const Phases& phases);

}  // namespace headroom::cuda
