#include "pipelines/schedules/step_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "passes/step_caches/step_cache_options.hpp"

namespace headroom {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLeastGain = 1e-9;  // relative; less is rounding

/// Decomposes the error of a skipped call into a sum of predictions: calls `add(factor, call)` for each. `before`
/// equals `last` if there is none.
template <class Add>
void take_apart(const LoopRecord& record, std::size_t before, std::size_t last, std::size_t skipped, const Add& add) {
  const double distance = record.levels[last] - record.levels[before];
  const double along = distance == 0 ? 0 : (record.levels[skipped] - record.levels[last]) / distance;
  const double weight = record.weights[skipped];
  add(weight, skipped);
  add(-weight * (1 + along), last);
  add(weight * along, before);
}

/// Squared changes caused by runs of skipped calls after `last`: the first call, the first two, ...
std::vector<double> squares_of_runs(const LoopRecord& record, std::size_t before, std::size_t last) {
  std::vector<double> squares = {0}, shares(record.calls(), 0.0);  // of predictions in the run's error
  double square = 0;
  for (std::size_t skipped = last + 1; skipped < record.calls(); ++skipped) {
    take_apart(record, before, last, skipped, [&](double factor, std::size_t call) {
      double product = 0;  // inner product of the error so far with that prediction
      for (std::size_t i = before; i < record.calls(); ++i)
        if (shares[i] != 0) product += shares[i] * record.product(i, call);
      square += factor * (2 * product + factor * record.product(call, call));
      shares[call] += factor;
    });
    squares.push_back(std::max(square, 0.0));
  }
  return squares;
}

/// A table over pairs of calls, the second no earlier than the first.
template <class T>
class Pairs {
 public:
  Pairs(std::size_t calls, T value) : calls_(calls), values_(calls * calls, value) {}
  [[nodiscard]] T& operator()(std::size_t first, std::size_t second) { return values_[first * calls_ + second]; }
  [[nodiscard]] const T& operator()(std::size_t first, std::size_t second) const {
    return values_[first * calls_ + second];
  }

 private:
  std::size_t calls_;
  std::vector<T> values_;
};

/// costs(before, last)[next - last - 1]: the cost of the calls between `last` and `next`; `next` may be the end.
Pairs<std::vector<double>> costs_of_runs(const LoopRecord& record) {
  Pairs<std::vector<double>> costs(record.calls(), {});
  costs(0, 0) = squares_of_runs(record, 0, 0);
  for (std::size_t last = 1; last < record.calls(); ++last)
    for (std::size_t before = 0; before < last; ++before) costs(before, last) = squares_of_runs(record, before, last);
  return costs;
}

/// The best schedules with this many computed calls, by the pair of the last two computed calls.
struct BestByPair {
  explicit BestByPair(std::size_t calls) : cost(calls, kNever), from(calls, 0) {}
  Pairs<double> cost;       // of the calls before the second
  Pairs<std::size_t> from;  // the call that was computed before the first
};

/// Moves one computed call at a time between its neighbors, always the most useful move, while that reduces the
/// error.
StepSchedule improve(const LoopRecord& record, std::string digits) {
  StepSchedule best{.digits = std::move(digits), .error = 0};
  best.error = error_of_schedule(record, best.digits);
  for (StepSchedule from; from.digits != best.digits;) {
    from = best;
    for (std::size_t call = 1; call < record.calls(); ++call) {
      if (from.digits[call] == '0') continue;
      std::string moved = from.digits;
      moved[call] = '0';
      const auto try_at = [&](std::size_t place) {
        moved[place] = '1';
        if (const double error = error_of_schedule(record, moved); error < (1 - kLeastGain) * best.error)
          best = {.digits = moved, .error = error};
        moved[place] = '0';
      };
      for (std::size_t place = call - 1; place > 0 && moved[place] == '0'; --place) try_at(place);
      for (std::size_t place = call + 1; place < moved.size() && moved[place] == '0'; ++place) try_at(place);
    }
  }
  return best;
}

}  // namespace

std::string spread_schedule(std::size_t computed, std::size_t calls) {
  std::string digits;
  for (const bool is_computed : spread_steps(static_cast<std::int64_t>(computed), static_cast<std::int64_t>(calls)))
    digits += is_computed ? '1' : '0';
  return digits;
}

double error_of_schedule(const LoopRecord& record, std::string_view digits) {
  HR_CHECK_EQ(digits.size(), record.calls());
  HR_CHECK(digits.starts_with('1'));
  std::vector<double> shares(record.calls(), 0.0);  // of predictions in the error
  std::size_t before = 0, last = 0;
  for (std::size_t call = 1; call < digits.size(); ++call) {
    if (digits[call] == '1') {
      before = last;
      last = call;
      continue;
    }
    take_apart(record, before, last, call, [&](double factor, std::size_t answer) { shares[answer] += factor; });
  }
  double square = 0;
  for (std::size_t a = 0; a < shares.size(); ++a)
    if (shares[a] != 0)
      for (std::size_t b = 0; b < shares.size(); ++b) square += shares[a] * shares[b] * record.product(a, b);
  return std::sqrt(std::max(square, 0.0));
}

std::vector<StepSchedule> find_independent_schedules(const LoopRecord& record) {
  const std::size_t calls = record.calls();
  HR_CHECK(calls > 1);
  const Pairs<std::vector<double>> costs = costs_of_runs(record);
  const auto cost_of = [&](std::size_t before, std::size_t last, std::size_t next) {
    return costs(before, last)[next - last - 1];
  };
  std::vector<BestByPair> best_by_pair;  // by the number of computed calls, less one
  best_by_pair.emplace_back(calls);
  best_by_pair.front().cost(0, 0) = 0;
  for (std::size_t computed = 2; computed < calls; ++computed) {
    BestByPair& now = best_by_pair.emplace_back(calls);
    const BestByPair& then = best_by_pair[computed - 2];
    for (std::size_t last = 0; last < calls; ++last)
      for (std::size_t before = 0; before <= last; ++before) {
        if (then.cost(before, last) == kNever) continue;
        for (std::size_t next = last + 1; next < calls; ++next)
          if (const double cost = then.cost(before, last) + cost_of(before, last, next); cost < now.cost(last, next)) {
            now.cost(last, next) = cost;
            now.from(last, next) = before;
          }
      }
  }

  std::vector<StepSchedule> found;
  for (std::size_t computed = 1; computed < calls; ++computed) {
    StepSchedule best{.digits = std::string(calls, '0'), .error = kNever};
    std::size_t before = 0, last = 0;
    for (std::size_t b = 0; b < calls; ++b)
      for (std::size_t a = 0; a <= b; ++a) {
        if (best_by_pair[computed - 1].cost(a, b) == kNever) continue;
        const double error = best_by_pair[computed - 1].cost(a, b) + cost_of(a, b, calls);
        if (error >= best.error) continue;
        best.error = error;
        before = a;
        last = b;
      }
    for (std::size_t left = computed; left > 0; --left) {
      best.digits[last] = '1';
      const std::size_t earlier = best_by_pair[left - 1].from(before, last);
      last = before;
      before = earlier;
    }
    best.error = std::sqrt(best.error);
    found.push_back(std::move(best));
  }
  return found;
}

std::vector<StepSchedule> find_schedules(const LoopRecord& record) {
  std::vector<StepSchedule> found = find_independent_schedules(record);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const StepSchedule independent = improve(record, found[i].digits);
    const StepSchedule spread = improve(record, spread_schedule(i + 1, record.calls()));
    found[i] = spread.error < independent.error ? spread : independent;
  }
  return found;
}

std::vector<std::vector<std::string>> candidate_schedules(const LoopRecord& record, std::span<const double> feedback) {
  LoopRecord fed_back = record;
  std::ranges::transform(record.weights, feedback, fed_back.weights.begin(), std::multiplies<>());
  std::vector<std::vector<std::string>> candidates;
  for (std::size_t computed = 1; computed < record.calls(); ++computed)
    candidates.push_back({spread_schedule(computed, record.calls())});
  for (const std::vector<StepSchedule>& found :
       {find_independent_schedules(record), find_independent_schedules(fed_back), find_schedules(record),
        find_schedules(fed_back)})
    for (std::size_t i = 0; i < found.size(); ++i)
      if (std::ranges::find(candidates[i], found[i].digits) == candidates[i].end())
        candidates[i].push_back(found[i].digits);
  return candidates;
}

}  // namespace headroom
