#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "measure/profile.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

/// Launches shown as one line.
struct Line {
  std::string label;
  std::string kernel;
  std::string floor_of;
  std::int64_t launches = 0;
  double time_ms = 0;
  double floor_ms = 0;
};

Line line_of(const Profile& profile, const PlanRecord& plan, std::size_t i, bool every_launch) {
  const PlannedNode& node = plan.nodes[i];
  return {.label = every_launch ? fmt::format("{} {}", node.op, node.node)
                                : fmt::format("{} {}", node.op, node.compute_type),
          .kernel = fmt::format("{} ({})", node.kernel, node.implementation),
          .floor_of = profile.launches.floor_of[i],
          .launches = 1,
          .time_ms = profile.launches.time_ms[i],
          .floor_ms = profile.launches.floor_ms[i]};
}

void add_line(std::vector<Line>& lines, Line line, bool every_launch) {
  if (!every_launch)
    for (Line& known : lines)
      if (known.label == line.label && known.kernel == line.kernel) {
        ++known.launches;
        known.time_ms += line.time_ms;
        known.floor_ms += line.floor_ms;
        return;
      }
  lines.push_back(std::move(line));
}

void add_rows(Table& table, std::vector<Line> lines, bool every_launch, double total_ms) {
  if (!every_launch) std::ranges::stable_sort(lines, std::ranges::greater(), &Line::time_ms);
  for (const Line& line : lines)
    table.add_row({line.label, line.kernel, std::to_string(line.launches), format_ms(line.time_ms),
                   fmt::format("{:.1f}%", 100 * line.time_ms / total_ms), format_ms(line.floor_ms), line.floor_of,
                   format_factor(line.time_ms / line.floor_ms), format_ms(line.time_ms - line.floor_ms)});
}

}  // namespace

std::string to_profile_table(const Profile& profile, const PlanRecord& plan, bool every_launch) {
  HR_CHECK_EQ(plan.nodes.size(), profile.launches.time_ms.size());
  std::vector<Line> step, once;
  const std::int64_t trips = std::ranges::max(profile.launches.runs);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const bool in_loop = trips == 1 || profile.launches.runs[i] == trips;
    add_line(in_loop ? step : once, line_of(profile, plan, i, every_launch), every_launch);
  }
  Table table;
  table.add_column(every_launch ? "launch" : "op", Align::kLeft);
  table.add_column("kernel", Align::kLeft);
  for (const char* header : {"launches", "time", "share", "floor", "of", "over it", "headroom"})
    table.add_column(header);
  const double step_ms = median(profile.steps.wall_ms);
  add_rows(table, step, every_launch, step_ms);
  if (!once.empty()) {
    table.add_rule();
    add_rows(table, once, every_launch, step_ms);
  }
  std::string text = table.render();
  text += fmt::format("\na step takes {}; its launches, one by one, {}; their floors {}: {} over the floor\n",
                      format_ms(step_ms), format_ms(profile.step_launches_ms), format_ms(profile.step_floor_ms),
                      format_factor(step_ms / profile.step_floor_ms));
  if (!once.empty()) text += fmt::format("below the rule: once a request, {}\n", format_ms(profile.once_ms));
  return text;
}

}  // namespace headroom
