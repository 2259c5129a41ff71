#include "report/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "report/option.hpp"

namespace headroom {

using nlohmann::json;

namespace {

/// Works belong to one sweep where they agree in `rest_of`, what is left of the subject.
std::vector<Sweep> collect(const Dataset& dataset, const std::function<std::optional<double>(const Subject&)>& x_of,
                           const std::function<Subject(Subject)>& rest_of) {
  std::map<std::string, Sweep> by_rest;
  std::vector<std::string> order;
  for (const Scenario& scenario : dataset.scenarios()) {
    const std::optional<double> x = x_of(scenario.subject);
    if (scenario.subject.kind != SubjectKind::kModel || !x) continue;
    const Subject rest = rest_of(scenario.subject);
    const std::string key = fmt::format("{}|{}|{}", rest.name, rest.request.dump(), scenario.hardware);
    Sweep& sweep = by_rest[key];
    if (sweep.points.empty()) {
      order.push_back(key);
      sweep.hardware = scenario.hardware;
      sweep.work = describe_work(rest);
    }
    if (std::ranges::find(sweep.points, *x, &SweepPoint::x) == sweep.points.end())
      sweep.points.push_back({.x = *x, .scenario = &scenario});
  }
  std::vector<Sweep> sweeps;
  for (const std::string& key : order) {
    Sweep& sweep = by_rest[key];
    if (sweep.points.size() < 2) continue;
    std::ranges::sort(sweep.points, {}, &SweepPoint::x);
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

}  // namespace

std::vector<Sweep> sweeps_over(const Dataset& dataset, const std::set<std::string>& keys,
                               const std::function<std::optional<double>(const Subject&)>& x_of) {
  return collect(dataset, x_of, [&](Subject subject) {
    for (const std::string& key : keys) subject.request.erase(key);
    return subject;
  });
}

std::vector<Sweep> sweeps_over_models(const Dataset& dataset,
                                      const std::function<std::optional<double>(const Subject&)>& x_of) {
  return collect(dataset, x_of, [](Subject subject) {
    subject.name = "models of growing size";
    return subject;
  });
}

const std::set<std::string>& resolution_keys() {
  static const std::set<std::string> keys = {"image_tokens", "token_rows", "token_columns", "height", "width"};
  return keys;
}

std::vector<SweepLine> lines_of(const Sweep& sweep) {
  std::vector<SweepLine> lines;
  const auto add = [&](const Measurement& like, std::string_view role) {
    SweepLine line{.label = like.label, .role = role, .at = {}};
    std::ptrdiff_t found = 0;
    for (const SweepPoint& point : sweep.points) {
      const auto& current = point.scenario->current;
      const auto same = std::ranges::find_if(current, [&](const Measurement* m) {
        return m->timing && m->label == like.label && m->is_peer == like.is_peer &&
               m->result->configuration.baseline_dtype == like.result->configuration.baseline_dtype;
      });
      line.at.push_back(same == current.end() ? nullptr : *same);
      found += same == current.end() ? 0 : 1;
    }
    const bool is_new = std::ranges::none_of(lines, [&](const SweepLine& other) { return other.at == line.at; });
    if (found >= 2 && is_new) lines.push_back(std::move(line));
  };
  static constexpr std::string_view kPeerRoles[] = {"purple", "green", "gold", "sky"};
  for (const SweepPoint& point : sweep.points)
    for (const Measurement* m : point.scenario->current)
      if (!m->is_peer && m->switches().empty() && m->timing) add(*m, "base");
  std::vector<const Measurement*> ours;
  for (const Measurement* m : sweep.points.back().scenario->current)
    if (!m->is_peer && !m->switches().empty() && m->timing) ours.push_back(m);
  std::ranges::sort(ours, {}, [](const Measurement* m) { return m->time().median_ms; });
  for (const std::size_t before = lines.size(); const Measurement* m : ours) {
    add(*m, "orange");
    if (lines.size() > before) break;
  }
  std::size_t peers = 0;
  for (const Measurement* m : sweep.points.back().scenario->current)
    if (m->is_peer && m->timing) add(*m, kPeerRoles[peers++ % std::size(kPeerRoles)]);
  return lines;
}

std::vector<const Measurement*> measurements_of(const std::vector<SweepLine>& lines) {
  std::vector<const Measurement*> measurements;
  for (const SweepLine& line : lines)
    std::ranges::copy_if(line.at, std::back_inserter(measurements), [](const Measurement* m) { return m != nullptr; });
  return measurements;
}

std::string unit_of(const std::vector<SweepLine>& lines) {
  for (const SweepLine& line : lines)
    for (const Measurement* m : line.at)
      if (m != nullptr) return m->time().unit;
  return "run";
}

json sweep_option(const Sweep& sweep, const std::vector<SweepLine>& lines, std::string_view x_name,
                  const SweepQuantity& y) {
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 72}, {"top", 44}, {"bottom", 44}, {"containLabel", true}};
  option["legend"] = {{"top", 0}, {"left", 0}, {"type", "scroll"}};
  option["xAxis"] = value_axis(x_name, "axis_plain");
  option["xAxis"]["min"] = 0;
  option["yAxis"] = value_axis(y.name, y.axis_fn);
  option["yAxis"]["nameLocation"] = "end";
  option["yAxis"]["nameGap"] = 10;
  option["yAxis"]["nameTextStyle"] = {{"align", "left"}};
  option["yAxis"]["min"] = 0;
  option["grid"]["top"] = 64;
  option["series"] = json::array();
  for (const SweepLine& line : lines) {
    json items = json::array(), intervals = json::array();
    for (std::size_t i = 0; i < line.at.size(); ++i) {
      if (line.at[i] == nullptr) continue;
      const Timing& timing = line.at[i]->time();
      const double x = sweep.points[i].x, value = y.of_time(x, timing.median_ms);
      Tip tip(fmt::format("{}, {} {}", line.label, x, x_name));
      tip.row("model", sweep.points[i].scenario->subject.name).row(y.name, exact(value, y.unit)).timing(*line.at[i]);
      items.push_back({{"value", json::array({x, value})},
                       {"name", line.label},
                       {"text", y.label ? y.label(value) : label_ms(value)},
                       {"tip", tip.json()}});
      if (timing.interval_ms)
        intervals.push_back(
            json::array({x, y.of_time(x, timing.interval_ms->low), y.of_time(x, timing.interval_ms->high)}));
    }
    option["series"].push_back({{"type", "line"},
                                {"name", line.label},
                                {"data", items},
                                {"symbolSize", 9},
                                {"symbol", "circle"},
                                {"lineStyle", {{"width", 2}, {"color", color(line.role)}}},
                                {"itemStyle", {{"color", color(line.role)}}},
                                {"labelLayout", {{"hideOverlap", true}, {"dy", &line == &lines.front() ? -10 : 10}}},
                                {"label", value_label()}});
    option["series"].push_back(vertical_whiskers(std::move(intervals)));
    option["series"].back()["z"] = 5;
  }
  return option;
}

}  // namespace headroom
