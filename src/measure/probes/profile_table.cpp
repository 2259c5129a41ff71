#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "measure/probes/floor.hpp"
#include "measure/probes/profile.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

/// Launches shown as one line.
struct Line {
  std::string label;
  std::string kernel;
  std::string floor_of;
  std::int64_t launches = 0;
  double time_ms = 0;
  double request_ms = 0;  ///< in a whole request or pass
  double bytes = 0;       ///< least bytes to move
  bool is_timed = false;  ///< whether any of them was timed alone
  double alone_ms = 0;
  double floor_ms = 0;
};

std::string label_of(const PlannedNode& node, ProfileRows rows) {
  if (rows == ProfileRows::kOp) return fmt::format("{} {}", node.op, node.compute_type);
  if (rows == ProfileRows::kModule) return module_kind(node.node);
  return fmt::format("{} {}", node.op, node.node);
}

Line line_of(const Profile& profile, const PlanRecord& plan, std::size_t i, ProfileRows rows) {
  const PlannedNode& node = plan.nodes[i];
  return {.label = label_of(node, rows),
          .kernel = rows == ProfileRows::kModule ? "" : fmt::format("{} ({})", node.kernel, node.implementation),
          .floor_of = profile.launches.floor_of[i],
          .launches = 1,
          .time_ms = profile.launches.time_ms[i],
          .request_ms = static_cast<double>(profile.launches.runs[i]) * profile.launches.time_ms[i],
          .bytes = node.cost_bytes,
          .is_timed = node.cost_unit == "matrix",
          .alone_ms = profile.launches.alone_ms[i],
          .floor_ms = profile.launches.floor_ms[i]};
}

void add_line(std::vector<Line>& lines, Line line, ProfileRows rows) {
  if (rows != ProfileRows::kLaunch)
    for (Line& known : lines)
      if (known.label == line.label && known.kernel == line.kernel) {
        if (known.floor_of != line.floor_of) known.floor_of = "both";
        ++known.launches;
        known.time_ms += line.time_ms;
        known.request_ms += line.request_ms;
        known.bytes += line.bytes;
        known.is_timed |= line.is_timed;
        known.alone_ms += line.alone_ms;
        known.floor_ms += line.floor_ms;
        return;
      }
  lines.push_back(std::move(line));
}

/// The ratio of a step to its floors in words, with a remark if it is unreliable.
std::string over_floor_text(const Profile& profile) {
  const double over = profile.over_floor();
  const char* disturbed = profile.disturbances.empty() ? "" : ", but the measurement was disturbed";
  if (over >= 1) return fmt::format("{} over the floor{}", format_factor(over), disturbed);
  if (!is_below_floor(over)) return fmt::format("at the floor{}", disturbed);
  return fmt::format("the {} is faster than they are, so they do not bound it{}", profile.step_name(), disturbed);
}

std::int64_t count_below(const std::vector<Line>& lines) {
  return std::ranges::count_if(lines, [](const Line& line) { return is_below_floor(line.time_ms / line.floor_ms); });
}

/// Remarks on rows below their floors and on disturbances.
std::string remarks_on(const Profile& profile, std::int64_t below) {
  std::string text = remark_on_rows_below_floor(below, !profile.disturbances.empty());
  for (const std::string& disturbance : profile.disturbances) text += fmt::format("disturbed: {}\n", disturbance);
  return text;
}

/// `per` is the unit of work of the times: "step", "pass" or "request". `request_ms` is the time of all launches of a
/// request or pass.
void add_rows(Table& table, std::vector<Line> lines, ProfileRows rows, double request_ms, const char* per) {
  if (rows != ProfileRows::kLaunch) std::ranges::stable_sort(lines, std::ranges::greater(), &Line::time_ms);
  for (const Line& line : lines) {
    std::vector<Cell> cells = {line.label};
    if (rows != ProfileRows::kModule) cells.emplace_back(line.kernel);
    const double over = line.time_ms / line.floor_ms, share = line.request_ms / request_ms;
    const bool is_below = is_below_floor(over);
    for (Cell cell :
         {count_cell(line.launches), ms_cell(line.time_ms), number_cell(share, fmt::format("{:.1f}%", 100 * share)),
          bytes_cell(static_cast<std::int64_t>(line.bytes)), line.is_timed ? ms_cell(line.alone_ms) : no_value(),
          ms_cell(line.floor_ms), Cell(line.floor_of), over_floor_cell(over),
          is_below ? no_value() : ms_cell(std::max(0.0, line.time_ms - line.floor_ms))})
      cells.push_back(std::move(cell));
    cells.emplace_back(per);
    table.add_row(std::move(cells));
  }
}

std::vector<Column> profile_columns(ProfileRows rows) {
  constexpr const char* kFirst[] = {"op", "module", "launch"};
  std::vector<Column> columns = {{.header = kFirst[static_cast<std::size_t>(rows)], .align = Align::kLeft}};
  if (rows != ProfileRows::kModule)
    columns.push_back({.header = "kernel", .align = Align::kLeft, .priority = rows == ProfileRows::kOp ? 0 : 1});
  const auto add = [&](const char* header, int priority, const char* field) {
    columns.push_back({.header = header, .priority = priority, .fields = {field}});
  };
  add("launches", 3, "launches");
  add("time", 0, "time_ms");
  add("share of launches", 0, "share");
  add("bytes", 6, "bytes");
  add("alone", 4, "alone_ms");
  add("floor", 2, "floor_ms");
  add("of", 5, "floor_of");
  add("over it", 0, "times_floor");
  add("headroom", 0, "headroom_ms");
  columns.push_back({.header = "per", .shown = Shown::kOnlyInCsv});
  return columns;
}

}  // namespace

std::string module_kind(std::string_view path, std::size_t most_names) {
  std::string kind;
  std::size_t names = 0;
  for (const auto part : path | std::views::split('.')) {
    const std::string_view name(part.begin(), part.end());
    const bool is_number = !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number && ++names > most_names) break;
    if (!kind.empty()) kind += '.';
    kind += is_number ? "*" : name;
  }
  return kind.empty() ? "(the model itself)" : kind;
}

Printout to_profile_table(const Profile& profile, const PlanRecord& plan, ProfileRows rows) {
  HR_CHECK_EQ(plan.nodes.size(), profile.launches.time_ms.size());
  std::vector<Line> step, once;
  const std::int64_t trips = std::ranges::max(profile.launches.runs);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const bool in_loop = trips == 1 || profile.launches.runs[i] == trips;
    add_line(in_loop ? step : once, line_of(profile, plan, i, rows), rows);
  }
  Table table;
  for (Column& column : profile_columns(rows)) table.add_column(std::move(column));
  const double step_ms = profile.step_ms();
  double request_ms = 0;
  for (const std::vector<Line>* lines : {&step, &once})
    for (const Line& line : *lines) request_ms += line.request_ms;
  const char *const name = profile.step_name(), *const whole = profile.is_pass ? "pass" : "request";
  add_rows(table, step, rows, request_ms, name);
  if (!once.empty()) {
    table.add_rule();
    add_rows(table, once, rows, request_ms, whole);
  }
  std::string text =
      fmt::format("\na {} takes {}; its launches, one by one, {}, alone {}; their floors {}: {}\n", name,
                  format_ms(step_ms), format_ms(profile.step_launches_ms), format_ms(profile.step_alone_ms),
                  format_ms(profile.step_floor_ms()), over_floor_text(profile));
  text += remarks_on(profile, count_below(step) + count_below(once));
  if (profile.launches.idle_share)
    text += fmt::format("the device is idle for {:.2f}% of a {}\n", 100 * *profile.launches.idle_share, name);
  if (const auto& [busy, loop_step] = std::pair(profile.launches.busy_ms, profile.launches.loop_step_ms);
      busy && loop_step)
    text += fmt::format("with the loop as one graph a step takes {}, for {:.2f}% of which the device is idle\n",
                        format_ms(*loop_step), 100 * std::max(0.0, 1 - *busy / *loop_step));
  if (!once.empty()) text += fmt::format("below the rule: once a {}, {}\n", whole, format_ms(profile.once_ms));
  Printout printout(std::move(table));
  printout.add(std::move(text));
  return printout;
}

}  // namespace headroom
