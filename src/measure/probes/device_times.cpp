#include "measure/probes/device_times.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "base/error.hpp"

namespace headroom {
namespace {

/// The name that identifies an activity. In a CUDA graph, a driver kernel such as memset32 may replace a fill.
std::string_view name_of_piece(const DeviceActivity& activity) {
  if (activity.kind == DeviceActivity::Kind::kFill || activity.name.starts_with("memset")) return "fill";
  return activity.name;
}

void add_order(const Segment& segment, std::vector<int>& order) {
  for (std::int64_t iteration = 0; iteration < segment.trip_count; ++iteration) {
    if (segment.children.empty())
      for (int step = segment.first; step < segment.last; ++step) order.push_back(step);
    for (const Segment& child : segment.children) add_order(child, order);
  }
}

}  // namespace

std::vector<int> launch_order(const Program& program) {
  std::vector<int> order;
  add_order(program.root, order);
  return order;
}

const Segment* find_loop(const Segment& segment) {
  if (segment.kind == SegmentKind::kLoop) return &segment;
  for (const Segment& child : segment.children)
    if (const Segment* loop = find_loop(child)) return loop;
  return nullptr;
}

std::vector<DeviceActivity> without_host_copies(std::span<const DeviceActivity> activities) {
  std::vector<DeviceActivity> rest;
  for (const DeviceActivity& activity : activities)
    if (activity.kind != DeviceActivity::Kind::kHostCopy) rest.push_back(activity);
  return rest;
}

std::vector<std::int64_t> own_ns(std::span<const DeviceActivity> activities) {
  std::vector<std::int64_t> own;
  own.reserve(activities.size());
  std::map<std::int64_t, std::int64_t> ends;  // end of each stream's work so far
  for (const DeviceActivity& activity : activities) {
    std::int64_t& end_ns = ends.try_emplace(activity.stream, activity.start_ns).first->second;
    const std::int64_t from = std::max(activity.start_ns, end_ns);
    end_ns = std::max(activity.end_ns, from);
    own.push_back(end_ns - from);
  }
  return own;
}

std::int64_t busy_ns(std::span<const DeviceActivity> activities, std::int64_t begin_ns, std::int64_t end_ns) {
  std::int64_t busy = 0, covered_ns = begin_ns;
  for (const DeviceActivity& activity : activities) {
    const std::int64_t from = std::max(activity.start_ns, covered_ns);
    const std::int64_t to = std::min(activity.end_ns, end_ns);
    if (to <= from) continue;
    busy += to - from;
    covered_ns = to;
  }
  return busy;
}

LaunchTimes::LaunchTimes(const Program& program)
    : program_(program),
      order_(launch_order(program)),
      pieces_(program.steps.size()),
      launch_ms_(program.steps.size()) {}

void LaunchTimes::learn(std::span<const std::pair<int, std::int64_t>> ends,
                        std::span<const DeviceActivity> activities) {
  const std::vector<DeviceActivity> work = without_host_copies(activities);
  auto next = work.begin();
  for (const auto& [step, end_ns] : ends) {
    std::vector<std::string> names;
    for (; next != work.end() && next->start_ns <= end_ns; ++next) names.emplace_back(name_of_piece(*next));
    std::optional<std::vector<std::string>>& known = pieces_[static_cast<std::size_t>(step)];
    if (known && *known != names)
      fail("{} was {} pieces of work for the device and then {} others: its records are not complete",
           program_.steps[static_cast<std::size_t>(step)].label, known->size(), names.size());
    known = std::move(names);
  }
}

void LaunchTimes::add(std::span<const DeviceActivity> activities) {
  const std::vector<DeviceActivity> work = without_host_copies(activities);
  const std::vector<std::int64_t> work_ns = own_ns(work);
  std::vector<std::size_t> submitted(work.size());  // indices in `work`
  std::iota(submitted.begin(), submitted.end(), std::size_t{0});
  std::ranges::stable_sort(submitted, {}, [&](std::size_t i) { return std::pair(work[i].launch, work[i].in_replay); });

  const Segment* const loop = find_loop(program_.root);
  std::vector<std::int64_t> iterations_ns;  // start time of each iteration of the loop
  steps_of_last_.assign(work.size(), -1);
  auto next = submitted.begin();
  for (const int step : order_) {
    const auto s = static_cast<std::size_t>(step);
    const bool begins_iteration = loop != nullptr && step == loop->first;
    if (begins_iteration) iterations_ns.push_back(INT64_MAX);
    HR_CHECK(pieces_[s].has_value());
    double ms = 0;
    for (const std::string& name : *pieces_[s]) {
      if (next == submitted.end() || name_of_piece(work[*next]) != name)
        fail("the device recorded {} where {} should have run {}: its records are not complete or not in order",
             next == submitted.end() ? "nothing" : work[*next].name, program_.steps[s].label, name);
      const DeviceActivity& piece = work[*next];
      ms += static_cast<double>(work_ns[*next]) * 1e-6;
      steps_of_last_[*next] = step;
      if (loop != nullptr && step >= loop->first && step < loop->last)
        iterations_ns.back() = std::min(iterations_ns.back(), piece.start_ns);
      ++next;
    }
    launch_ms_[s].push_back(ms);
  }
  if (next != submitted.end())
    fail("the device recorded {} pieces of work more than the program has", submitted.end() - next);
  for (std::size_t iteration = 0; iteration + 1 < iterations_ns.size(); ++iteration) {
    const auto busy = static_cast<double>(busy_ns(work, iterations_ns[iteration], iterations_ns[iteration + 1]));
    busy_ms_.push_back(busy / 1e6);
    idle_shares_.push_back(1.0 - busy / static_cast<double>(iterations_ns[iteration + 1] - iterations_ns[iteration]));
  }
}

}  // namespace headroom
