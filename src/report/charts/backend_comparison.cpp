// The same work by Headroom and by peers: grouped bars over works.

#include <fmt/format.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr std::string_view kOurs[] = {"base", "orange", "blue", "sky"};
constexpr std::string_view kPeers[] = {"purple", "gold", "green"};

/// Works that a peer ran as well; their texts and what was measured of each.
std::vector<const Scenario*> shared_works(const Dataset& dataset) {
  std::vector<const Scenario*> works;
  for (const Scenario& scenario : dataset.scenarios()) {
    const auto of_peer = [](const Measurement* m) { return m->is_peer && m->timing; };
    const auto of_ours = [](const Measurement* m) { return !m->is_peer && m->timing; };
    if (std::ranges::any_of(scenario.current, of_peer) && std::ranges::any_of(scenario.current, of_ours))
      works.push_back(&scenario);
  }
  return works;
}

struct Column {
  std::string label;
  bool is_peer;
  std::vector<const Measurement*> at;  // one for each work, null where it was not measured
};

std::vector<Column> columns_of(const std::vector<const Scenario*>& works) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < works.size(); ++i)
    for (const Measurement* m : works[i]->current) {
      if (!m->timing) continue;
      auto column = std::ranges::find_if(
          columns, [&](const Column& c) { return c.label == m->label && c.is_peer == m->is_peer; });
      if (column == columns.end())
        column = columns.insert(columns.end(), {m->label, m->is_peer, std::vector<const Measurement*>(works.size())});
      column->at[i] = m;
    }
  std::ranges::stable_sort(columns, {}, &Column::is_peer);
  return columns;
}

json draw(const std::vector<const Scenario*>& works, const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Scenario* work : works) names.push_back(works.size() == 1 ? "" : subtitle_of(*work));
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 90}, {"top", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["yAxis"]["axisLabel"]["overflow"] = "break";
  option["yAxis"]["axisLabel"]["width"] = 200;
  option["xAxis"] = value_axis("time", "axis_ms");
  option["xAxis"]["min"] = 0;
  option["series"] = json::array();
  std::size_t ours = 0, peers = 0;
  for (const Column& column : columns) {
    const std::string_view role =
        column.is_peer ? kPeers[peers++ % std::size(kPeers)] : kOurs[ours++ % std::size(kOurs)];
    json items = json::array();
    for (const Measurement* m : column.at) {
      if (m == nullptr) {
        items.push_back("-");  // how the library writes that there is nothing
        continue;
      }
      Tip tip(m->label);
      tip.row("source", fmt::format("{} {}", m->result->source.name, m->result->source.version)).timing(*m);
      items.push_back({{"value", m->time().median_ms}, {"text", label_ms(m->time().median_ms)}, {"tip", tip.json()}});
    }
    option["series"].push_back({{"type", "bar"},
                                {"name", column.label},
                                {"barMaxWidth", 22},
                                {"data", items},
                                {"itemStyle", {{"color", color(role)}}},
                                {"label", value_label()}});
  }
  return option;
}

/// Where there is one work, each configuration is a bar of its own with its name beside it.
json draw_one(const Scenario& work) {
  std::vector<Bar> bars;
  for (const Measurement* m : work.current) {
    if (!m->timing) continue;
    Tip tip(m->label);
    tip.row("source", fmt::format("{} {}", m->result->source.name, m->result->source.version)).timing(*m);
    bars.push_back({.name = m->label,
                    .value = m->time().median_ms,
                    .interval = m->time().interval_ms,
                    .text = label_ms(m->time().median_ms),
                    .role = m->is_peer              ? "purple"
                            : m->switches().empty() ? "base"
                                                    : "orange",
                    .tip = tip.json()});
  }
  return horizontal_bars(bars, fmt::format("time per {}", work.current.front()->time().unit), "axis_ms");
}

}  // namespace

Drawn backend_comparison(const Dataset& dataset) {
  Drawn drawn{.charts = {}, .left_out = "no work was run both by Headroom and by a peer on the same machine"};
  const std::vector<const Scenario*> works = shared_works(dataset);
  if (works.empty()) return drawn;
  const std::vector<Column> columns = columns_of(works);
  const bool is_one = works.size() == 1;
  std::vector<const Measurement*> all;
  for (const Scenario* work : works) all.insert(all.end(), work->current.begin(), work->current.end());
  drawn.charts.push_back(
      {.file = "backend_comparison",
       .title = "The same work by Headroom and by others",
       .subtitle = is_one ? subtitle_of(*works.front()) : fmt::format("{} works that both ran", works.size()),
       .option = is_one ? draw_one(*works.front()) : draw(works, columns),
       .notes = is_one ? notes_on(*works.front(), all) : std::vector<std::string>{},
       .height = is_one ? height_of_bars(all.size())
                        : 70 + static_cast<int>(works.size()) * (30 + 24 * static_cast<int>(columns.size()))});
  if (!is_one) drawn.charts.back().option["legend"] = {{"top", 0}, {"left", 0}, {"type", "scroll"}};
  if (!is_one) drawn.charts.back().option["grid"]["top"] = 36;
  if (!is_one) note_revisions(drawn.charts.back().notes, all);
  drawn.charts.back().notes.emplace_back(
      "Only results of equal work (equal hash) on the same machine stand beside each other; purple is not Headroom.");
  return drawn;
}

}  // namespace headroom::charts
