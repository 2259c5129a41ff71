#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "kernels/fused/cuda_source.hpp"

namespace headroom::cuda {

/// Whether the first result may lie where a load's operand does (Kernel::may_overwrite), which is then read before that is
/// written. To all other operands nothing writes.
[[nodiscard]] bool may_be_written(const BoundProgram& bound, int access);

/// What of a program is computed when. Phases end in reductions, whose results the next one reads; what is wide is computed in the
/// phase that needs it first, and kept for others, or computed again in each.
///
/// A sum of squares about the row's mean is reduced with the sum that the mean is of: each thread's squares are about its own mean,
/// and joined with those of others (Chan, Golub and LeVeque 1979). So a norm's two sums end one phase, not two.
class Phases {
 public:
  Phases(const BoundProgram& bound, bool is_reread);

  /// The last phase.
  [[nodiscard]] int last() const { return last_; }
  /// The first phase in which it could be computed.
  [[nodiscard]] int level(int step) const { return level_[at(step)]; }
  [[nodiscard]] bool is_wide(int step) const { return is_wide_[at(step)]; }
  /// Whether a thread keeps it from one phase to others: of a load what was read, else floats.
  [[nodiscard]] bool is_kept(int step) const { return is_kept_[at(step)]; }
  /// The phase that computes it, or the first of those.
  [[nodiscard]] int first(int step) const { return *needed_[at(step)].begin(); }
  /// Whether it is a load that has columns and is needed first of all.
  [[nodiscard]] bool is_first_read(int step) const {
    return steps_[at(step)].what == RowProgram::Do::kLoad && is_wide(step) && first(step) == 0;
  }
  /// Of a sum of squares about a mean the sum that this is of; -1 of all other steps.
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

/// The loads, by their steps, that blocks which stay fetch ahead in packs of so many columns: of which each row has its own,
/// that are needed first of all, and of whose packs each has 16 bytes.
[[nodiscard]] std::set<int> fetched_loads(const BoundProgram& bound, int width);

/// Wide steps that are the same in rows which differ in their place along the innermost outer axis alone.
struct CommonSteps {
  std::set<int> all;
  std::set<int> used;  ///< by other steps, or as results
};
[[nodiscard]] CommonSteps common_steps(const BoundProgram& bound, const Phases& phases);

}  // namespace headroom::cuda
