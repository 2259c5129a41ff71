#include "plan/lanes.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "ir/op_definition.hpp"
#include "plan/arena.hpp"

namespace headroom {
namespace {

/// A placed tensor as the bytes that it covers.
struct Footprint {
  std::int64_t offset = 0;
  Shape shape;
  Shape strides;  ///< in elements
  std::int64_t element_bytes = 0;
};

/// Bytes from the first to the last element along the axes whose stride is below `limit` bytes.
std::int64_t span_below(const Footprint& bytes, std::int64_t limit) {
  std::int64_t span = bytes.element_bytes;
  for (int axis = 0; axis < bytes.shape.rank(); ++axis) {
    const std::int64_t stride = bytes.strides[axis] * bytes.element_bytes;
    if (stride < limit) span += (bytes.shape[axis] - 1) * stride;
  }
  return span;
}

/// Whether the stride of every axis is a multiple of `period` bytes, or the axis stays inside one period.
bool has_period(const Footprint& bytes, std::int64_t period) {
  for (int axis = 0; axis < bytes.shape.rank(); ++axis) {
    const std::int64_t stride = bytes.strides[axis] * bytes.element_bytes;
    if (bytes.shape[axis] > 1 && stride >= period && stride % period != 0) return false;
  }
  return bytes.offset % period + span_below(bytes, period) <= period;
}

/// Whether two tensors of one storage may share a byte. Exact for parts concatenated along any one axis.
bool may_overlap(const Footprint& a, const Footprint& b) {
  constexpr std::int64_t kEverything = INT64_MAX;
  if (a.shape.numel() == 0 || b.shape.numel() == 0) return false;
  const auto disjoint = [](std::int64_t a_at, std::int64_t a_span, std::int64_t b_at, std::int64_t b_span) {
    return a_at + a_span <= b_at || b_at + b_span <= a_at;
  };
  if (disjoint(a.offset, span_below(a, kEverything), b.offset, span_below(b, kEverything))) return false;
  for (int axis = 0; axis < a.shape.rank(); ++axis) {
    const std::int64_t period = a.strides[axis] * a.element_bytes;
    if (a.shape[axis] < 2 || period <= 0 || !has_period(a, period) || !has_period(b, period)) continue;
    if (disjoint(a.offset % period, span_below(a, period), b.offset % period, span_below(b, period))) return false;
  }
  return true;
}

/// The ranges of steps between which all lanes join: those without the begin or end of a loop.
std::vector<std::pair<int, int>> straight_stretches(const Program& program) {
  std::vector<std::pair<int, int>> stretches;
  const auto visit = [&](const auto& self, const Segment& segment) -> void {
    if (segment.children.empty() && segment.first < segment.last) stretches.emplace_back(segment.first, segment.last);
    for (const Segment& child : segment.children) self(self, child);
  };
  visit(visit, program.root);
  return stretches;
}

/// The steps known to have completed when a step begins: for each lane the latest, -1 for none of this range.
using Seen = std::vector<int>;

void merge(Seen& seen, const Seen& other) {
  for (std::size_t lane = 0; lane < seen.size(); ++lane) seen[lane] = std::max(seen[lane], other[lane]);
}

/// A rough duration, in bytes that memory moves meanwhile. Lanes are chosen by comparing durations, so only the
/// ratios of arithmetic, memory and launches matter; these are similar on the accelerators of a decade.
double duration(const Cost& cost) {
  constexpr double kFlopsPerByte = 200;
  constexpr double kLaunchBytes = 8e6;
  return kLaunchBytes + std::max(cost.bytes, cost.flops / kFlopsPerByte);
}

/// Assigns the lanes of one range.
class Stretch {
 public:
  Stretch(Program& program, int most, int window)
      : program_(program), lanes_(static_cast<std::size_t>(most)), window_(window) {}

  void assign(int first, int last) {
    accesses_.assign(program_.storages.size(), {});
    tails_.assign(lanes_, -1);
    behind_window_.assign(lanes_, -1);
    done_.assign(static_cast<std::size_t>(last - first), Seen(lanes_, -1));
    finished_.assign(static_cast<std::size_t>(last - first), 0);
    first_ = first;
    last_collective_ = -1;
    for (int i = first; i < last; ++i) assign_step(i);
  }

 private:
  struct Access {
    int step;
    bool writes;
    Footprint bytes;
  };

  Step& step(int i) const { return program_.steps[static_cast<std::size_t>(i)]; }
  double& finished(int i) { return finished_[static_cast<std::size_t>(i - first_)]; }
  /// The steps known to have completed when step i has.
  Seen& done(int i) { return done_[static_cast<std::size_t>(i - first_)]; }

  void assign_step(int i) {
    const std::vector<int> needed = find_needed(i);
    Step& current = step(i);
    current.lane = choose_lane(i, needed);
    const auto lane = static_cast<std::size_t>(current.lane);
    Seen& seen = done(i);
    if (tails_[lane] >= 0) merge(seen, done(tails_[lane]));
    const auto wait_for = [&](int n) {
      if (seen[static_cast<std::size_t>(step(n).lane)] >= n) return;
      current.waits.push_back(n);
      merge(seen, done(n));
    };
    // the latest first: it may have waited for the others
    std::for_each(needed.rbegin(), needed.rend(), wait_for);
    if (i - first_ >= window_) behind_window_[static_cast<std::size_t>(step(i - window_).lane)] = i - window_;
    for (const int n : behind_window_)
      if (n >= 0) wait_for(n);
    seen[lane] = i;
    tails_[lane] = i;
  }

  /// Earlier steps of the range that must complete before step i, in order, without duplicates.
  std::vector<int> find_needed(int i) {
    std::vector<int> needed;
    const auto access = [&](const Place& place, const TensorType& type, bool writes) {
      if (place.storage < 0 || program_.storages[static_cast<std::size_t>(place.storage)].kind == StorageKind::kWeight)
        return;
      Footprint bytes{.offset = static_cast<std::int64_t>(place.offset_bytes),
                      .shape = type.shape,
                      .strides = place.strides,
                      .element_bytes = static_cast<std::int64_t>(size_of(type.dtype))};
      std::vector<Access>& known = accesses_[static_cast<std::size_t>(place.storage)];
      for (const Access& before : known)
        if (before.step != i && (before.writes || writes) && may_overlap(before.bytes, bytes))
          needed.push_back(before.step);
      known.push_back({i, writes, bytes});
    };
    const Step& current = step(i);
    if (definition_of(current.op).is_collective) {  // all ranks have theirs in the same order
      if (last_collective_ >= 0) needed.push_back(last_collective_);
      last_collective_ = i;
    }
    for (std::size_t k = 0; k < current.inputs.size(); ++k)
      access(current.input_places[k], program_.graph.type(current.inputs[k]), false);
    for (std::size_t k = 0; k < current.outputs.size(); ++k)
      access(current.output_places[k], program_.graph.type(current.outputs[k]), true);
    std::ranges::sort(needed);
    const auto twice = std::ranges::unique(needed);
    needed.erase(twice.begin(), twice.end());
    return needed;
  }

  /// The lane in which the step begins earliest. Ties go to the lane of the latest step that it depends on, then to
  /// the first.
  int choose_lane(int i, const std::vector<int>& needed) {
    double ready = 0;
    for (const int n : needed) ready = std::max(ready, finished(n));
    const auto begin = [&](int lane) {
      const int tail = tails_[static_cast<std::size_t>(lane)];
      return std::max(ready, tail < 0 ? 0 : finished(tail));
    };
    int best = needed.empty() ? 0 : step(needed.back()).lane;
    for (int lane = 0; lane < static_cast<int>(lanes_); ++lane)
      if (begin(lane) < begin(best)) best = lane;
    finished(i) = begin(best) + duration(step(i).cost);
    return best;
  }

  Program& program_;
  std::size_t lanes_;
  int window_;
  int first_ = 0;
  int last_collective_ = -1;
  std::vector<std::vector<Access>> accesses_;  // by storage
  std::vector<int> tails_;                     // by lane: its last step, -1 for none
  std::vector<int> behind_window_;             // by lane: its last step that is at least window_ places back
  std::vector<Seen> done_;                     // by step of the range
  std::vector<double> finished_;               // by step of the range, estimated
};

}  // namespace

void assign_lanes(Program& program, int most, int window) {
  Stretch stretch(program, most, window);
  for (const auto& [first, last] : straight_stretches(program)) stretch.assign(first, last);
  program.lanes = 1;
  for (const Step& step : program.steps) program.lanes = std::max(program.lanes, step.lane + 1);
}

void share_scratch(Program& program) {
  if (program.lanes == 1) return;
  const std::vector<int> concurrent = last_concurrent(program);
  for (const auto& [first, last] : straight_stretches(program)) {
    std::vector<int> latest(static_cast<std::size_t>(program.lanes), -1);  // by lane: the last step with scratch
    for (int i = first; i < last; ++i) {
      Step& step = program.steps[static_cast<std::size_t>(i)];
      if (step.scratch < 0) continue;
      Storage& own = program.storages[static_cast<std::size_t>(step.scratch)];
      if (own.kind != StorageKind::kScratch) continue;
      int& before = latest[static_cast<std::size_t>(step.lane)];
      if (before >= 0 && concurrent[static_cast<std::size_t>(before)] >= i) {
        const int shared = program.steps[static_cast<std::size_t>(before)].scratch;
        Storage& whole = program.storages[static_cast<std::size_t>(shared)];
        whole.bytes = std::max(whole.bytes, std::exchange(own.bytes, 0));
        step.scratch = shared;
      }
      before = i;
    }
  }
}

void spread_over_lanes(Program& program, int most) {
  const auto live_bytes = [&] {
    find_lifetimes(program);
    return static_cast<double>(arena_lower_bound(program));
  };
  const double allowed = kMostLaneMemory * live_bytes();
  const std::vector<Step> steps = program.steps;
  const std::vector<Storage> storages = program.storages;
  for (const int window : {kNoWindow, 256, 64, 32, 16, 8, 4, 2}) {
    assign_lanes(program, most, window);
    share_scratch(program);
    if (live_bytes() <= allowed) return;
    program.steps = steps;
    program.storages = storages;
    program.lanes = 1;
  }
}

std::vector<int> last_concurrent(const Program& program) {
  std::vector<int> result(program.steps.size());
  std::iota(result.begin(), result.end(), 0);
  if (program.lanes == 1) return result;
  const auto lanes = static_cast<std::size_t>(program.lanes);
  for (const auto& [first, last] : straight_stretches(program)) {
    std::vector<Seen> done(static_cast<std::size_t>(last - first), Seen(lanes, -1));
    std::vector<int> tails(lanes, -1);
    for (int i = first; i < last; ++i) {
      const Step& step = program.steps[static_cast<std::size_t>(i)];
      const auto lane = static_cast<std::size_t>(step.lane);
      Seen& seen = done[static_cast<std::size_t>(i - first)];
      if (tails[lane] >= 0) merge(seen, done[static_cast<std::size_t>(tails[lane] - first)]);
      for (const int n : step.waits) merge(seen, done[static_cast<std::size_t>(n - first)]);
      // Steps of another lane that this step has not waited for may run concurrently with it, and vice versa.
      for (int k = first; k < i; ++k)
        if (seen[static_cast<std::size_t>(program.steps[static_cast<std::size_t>(k)].lane)] < k)
          result[static_cast<std::size_t>(k)] = i;
      seen[lane] = i;
      tails[lane] = i;
    }
  }
  return result;
}

}  // namespace headroom
