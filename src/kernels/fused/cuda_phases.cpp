#include "kernels/fused/cuda_phases.hpp"

#include <algorithm>
#include <cmath>

namespace headroom::cuda {
namespace {

using Do = RowProgram::Do;
using Step = RowProgram::Step;

bool is_formula(const Step& step, Op op) { return step.what == Do::kFormula && step.op == op; }

/// Whether that result may overwrite a load's operand.
bool may_write(const BoundProgram& bound, std::size_t result, int access) {
  const auto at = static_cast<std::size_t>(access);
  const RowAccess& load = bound.program.loads[at];
  return bound.loads[at] == bound.results[result] && load.axes == bound.program.results[result].axes && load.is_plain();
}

}  // namespace

bool may_be_written(const BoundProgram& bound, int access) {
  for (std::size_t result = 0; result < bound.results.size(); ++result)
    if (may_write(bound, result, access)) return true;
  return false;
}

Phases::Phases(const BoundProgram& bound, bool is_reread)
    : steps_(bound.program.steps),
      level_(steps_.size(), 0),
      sum_of_squares_(steps_.size(), -1),
      is_wide_(steps_.size()),
      is_kept_(steps_.size(), false),
      needed_(steps_.size()) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!is_reread) sum_of_squares_[i] = find_sum_of_squares(i, bound.walk.columns.extent);
    find_level(i, bound);
  }
  for (const RowProgram::Result& result : bound.program.results)
    needed_[at(result.step)].insert(is_reread ? last_ : level_[at(result.step)]);
  const auto first_stored = [&](int access) {  // the first phase that may write over a load's operand
    int first = last_;
    for (std::size_t result = 0; result < bound.results.size(); ++result)
      if (!is_reread && may_write(bound, result, access))
        first = std::min(first, level_[at(bound.program.results[result].step)]);
    return first;
  };
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (needed_[i].empty()) continue;  // steps replaced by a sum of squares
    if (steps_[i].what == Do::kLoad && may_be_written(bound, steps_[i].access))
      if (const int first = first_stored(steps_[i].access); *needed_[i].begin() > first) needed_[i].insert(first);
    is_kept_[i] = is_wide_[i] && !is_reread && needed_[i].size() > 1 && !is_cheap(steps_[i]);
    for (const int arg : args_of(i)) {
      if (arg < 0) continue;
      std::set<int>& needed = needed_[at(arg)];
      if (!is_wide_[i])
        needed.insert(is_reduction(steps_[i].what) ? level_[i] - 1 : level_[i]);
      else if (is_kept_[i])
        needed.insert(*needed_[i].begin());
      else
        needed.insert(needed_[i].begin(), needed_[i].end());
    }
  }
}

/// The operands of a step.
std::array<int, 3> Phases::args_of(std::size_t i) const {
  if (sum_of_squares_[i] >= 0) return {steps_[at(sum_of_squares_[i])].args[0], sum_of_squares_[i], -1};
  return steps_[i].args;
}

void Phases::find_level(std::size_t i, const BoundProgram& bound) {
  const Step& step = steps_[i];
  if (step.what == Do::kLoad) is_wide_[i] = bound.walk.columns.strides[at(step.access)] != 0;
  if (sum_of_squares_[i] >= 0) {
    level_[i] = level_[at(sum_of_squares_[i])];
    return;
  }
  for (const int arg : step.args) {
    if (arg < 0) continue;
    level_[i] = std::max(level_[i], level_[at(arg)] + (is_reduction(step.what) ? 1 : 0));
    is_wide_[i] = (is_wide_[i] || is_wide_[at(arg)]) && !is_reduction(step.what);
  }
  last_ = std::max(last_, level_[i]);
}

/// sum((x - sum(x) / columns)^2): the inner sum's number, or -1.
int Phases::find_sum_of_squares(std::size_t i, std::int64_t columns) const {
  const auto arg = [&](const Step& step, std::size_t k) -> const Step& { return steps_[at(step.args[k])]; };
  if (steps_[i].what != Do::kSum) return -1;
  const Step& square = arg(steps_[i], 0);
  if (!is_formula(square, Op::kMul) || square.args[0] != square.args[1]) return -1;
  const Step& beyond = arg(square, 0);
  if (!is_formula(beyond, Op::kSub) || !is_formula(arg(beyond, 1), Op::kMulScalar)) return -1;
  const Step& mean = arg(beyond, 1);
  const Step& sum = arg(mean, 0);
  const bool is_mean = sum.what == Do::kSum && sum.args[0] == beyond.args[0] && is_wide_[at(sum.args[0])] &&
                       mean.numbers[0] == 1.0 / static_cast<double>(columns);
  return is_mean ? mean.args[0] : -1;
}

/// Whether recomputing a step is cheaper than keeping it: one addition or multiplication of one wide value.
bool Phases::is_cheap(const Step& step) const {
  if (step.what != Do::kFormula) return false;
  const bool is_simple = step.op == Op::kAdd || step.op == Op::kSub || step.op == Op::kMul ||
                         step.op == Op::kAddScalar || step.op == Op::kMulScalar;
  return is_simple && 1 == std::ranges::count_if(step.args, [&](int arg) { return arg >= 0 && is_wide_[at(arg)]; });
}

CommonSteps common_steps(const BoundProgram& bound, const Phases& phases) {
  CommonSteps common;
  if (bound.walk.outer.empty()) return common;
  const std::vector<RowProgram::Step>& steps = bound.program.steps;
  const auto count = static_cast<int>(steps.size());
  const auto is_common = [&](int step) {
    const RowProgram::Step& what = steps[static_cast<std::size_t>(step)];
    if (what.what != Do::kLoad)
      return std::ranges::all_of(what.args, [&](int arg) {
        return arg < 0 || common.all.contains(arg) || steps[static_cast<std::size_t>(arg)].what == Do::kConstant;
      });
    const auto access = static_cast<std::size_t>(what.access);
    return bound.walk.outer.back().strides[access] == 0 && bound.walk.columns.repeats[access] == 1 &&
           !may_be_written(bound, what.access);
  };
  for (int step = 0; step < count; ++step)
    if (phases.is_wide(step) && is_common(step)) common.all.insert(step);
  const auto use = [&](int step) {
    if (common.all.contains(step)) common.used.insert(step);
  };
  for (int step = 0; step < count; ++step)
    if (!common.all.contains(step))
      for (const int arg : steps[static_cast<std::size_t>(step)].args) use(arg);
  for (const RowProgram::Result& result : bound.program.results) use(result.step);
  return common;
}

std::set<int> fetched_loads(const BoundProgram& bound, int width) {
  const Phases phases(bound, false);
  std::set<int> fetched;
  for (std::size_t step = 0; step < bound.program.steps.size(); ++step) {
    if (!phases.is_first_read(static_cast<int>(step))) continue;
    const auto access = static_cast<std::size_t>(bound.program.steps[step].access);
    const bool is_own =
        bound.walk.columns.repeats[access] == 1 &&
        std::ranges::all_of(bound.walk.outer, [&](const RowWalk::Axis& axis) { return axis.strides[access] != 0; });
    if (is_own && size_of(bound.loads[access]) * static_cast<std::size_t>(width) == 16)
      fetched.insert(static_cast<int>(step));
  }
  return fetched;
}

}  // namespace headroom::cuda
