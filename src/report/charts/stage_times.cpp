// Where the time of a generation goes, stage by stage, and in each the least that it could take on the machine; of a stream, where
// that of a frame goes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "measure/statistics.hpp"
#include "report/charts/charts.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr std::string_view kOnHost = "on the host";

/// What is drawn of a stage; those on the host are one.
struct Piece {
  std::string name;
  double ms = 0;
  std::optional<double> floor_ms = {};
};

struct Row {
  std::string name;
  std::vector<Piece> pieces;  // in the order they run, the host's last

  [[nodiscard]] double total_ms() const {
    double total = 0;
    for (const Piece& piece : pieces) total += piece.ms;
    return total;
  }
  [[nodiscard]] const Piece* find(const std::string& stage) const {
    const auto found = std::ranges::find(pieces, stage, &Piece::name);
    return found == pieces.end() ? nullptr : &*found;
  }
};

Row row_of(const Measurement& m) {
  Row row{.name = m.shown_name(), .pieces = {}};
  Piece host{.name = std::string(kOnHost)};
  for (const StageRecord& stage : m.result->stages) {
    const double ms = series_of(*m.result, stage.name).statistics.median;
    if (stage.memory_bytes)
      row.pieces.push_back({stage.name, ms, stage.floor_ms});
    else
      host.ms += ms;
  }
  if (host.ms > 0) row.pieces.push_back(std::move(host));
  return row;
}

/// Of a stream: means over its frames, for these add up.
Row row_of_frames(const Measurement& m) {
  const LatencyRecord& record = *m.result->latency;
  const auto mean = [](const std::vector<double>& ms) {
    return std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(ms.size());
  };
  return {.name = m.shown_name(),
          .pieces = {{"decode", mean(record.decode_ms)},
                     {"queue", mean(record.queue_ms)},
                     {"device", mean(record.device_ms)},
                     {"encode", mean(record.encode_ms)}}};
}

std::vector<std::string> stages_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    for (const Piece& piece : row.pieces)
      if (piece.name != kOnHost && std::ranges::find(names, piece.name) == names.end()) names.push_back(piece.name);
  const auto is_on_host = [](const Row& row) { return row.find(std::string(kOnHost)) != nullptr; };
  if (std::ranges::any_of(rows, is_on_host)) names.emplace_back(kOnHost);
  return names;
}

json tip_of(const Row& row, const std::string& unit) {
  Tip tip(row.name);
  for (const Piece& piece : row.pieces) {
    tip.row(piece.name, exact(piece.ms, "ms"));
    if (piece.floor_ms) tip.row(fmt::format("floor of {}", piece.name), exact(*piece.floor_ms, "ms"));
  }
  tip.row("in all, a " + unit, exact(row.total_ms(), "ms"));
  return tip.json();
}

std::string_view role_of(const std::string& stage, std::size_t index) {
  constexpr std::array<std::string_view, 6> kRoles = {"orange", "gold", "green", "purple", "sky", "orange_soft"};
  if (stage == kOnHost) return "base";
  return stage == "denoise" || stage == "device" ? "blue" : kRoles[index % kRoles.size()];
}

/// The floors of the stages as whiskers, each from where its stage begins; one over the stage's own time ends with it.
json floors_of(const std::vector<Row>& rows) {
  json floors = json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double start = 0;
    for (const Piece& piece : rows[i].pieces) {
      if (piece.floor_ms) floors.push_back({i, start, start + std::min(*piece.floor_ms, piece.ms)});
      start += piece.ms;
    }
  }
  return floors;
}

json draw(const std::vector<Row>& rows, const std::string& unit) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 90}, {"top", 36}, {"bottom", 44}, {"containLabel", true}};
  option["legend"] = {{"top", 0}, {"left", 0}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis("time of a " + unit, "axis_ms");
  option["series"] = json::array();
  const std::vector<std::string> stages = stages_of(rows);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    json data = json::array();
    for (const Row& row : rows) {
      const Piece* const piece = row.find(stages[s]);
      data.push_back({{"value", piece == nullptr ? 0.0 : piece->ms}, {"tip", tip_of(row, unit)}});
      if (s + 1 == stages.size()) data.back()["text"] = label_ms(row.total_ms());
    }
    option["series"].push_back({{"type", "bar"},
                                {"stack", "stages"},
                                {"name", stages[s]},
                                {"barMaxWidth", 26},
                                {"data", std::move(data)},
                                {"itemStyle", {{"color", color(role_of(stages[s], s))}}}});
  }
  option["series"].back()["label"] = value_label();
  if (json floors = floors_of(rows); !floors.empty())
    option["series"].push_back(horizontal_whiskers(std::move(floors)));
  option["media"] = json::array(
      {{{"query", {{"maxWidth", 600}}},
        {"option",
         {{"grid", {{"right", 70}}}, {"xAxis", {{"splitNumber", 2}}}, {"yAxis", narrow_names(option["yAxis"])}}}}});
  return option;
}

}  // namespace

Drawn stage_times(const Dataset& dataset) {
  constexpr std::size_t kFewest = 3;  // a loop and its inputs need no picture
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    std::vector<Row> rows;
    std::vector<const Measurement*> shown;
    bool has_floors = false;
    for (const Measurement* m : scenario.current) {
      if (m->result->stages.size() < kFewest && !m->result->latency) continue;
      shown.push_back(m);
      rows.push_back(m->result->latency ? row_of_frames(*m) : row_of(*m));
      has_floors |=
          std::ranges::any_of(rows.back().pieces, [](const Piece& piece) { return piece.floor_ms.has_value(); });
    }
    if (rows.empty()) continue;
    const bool is_stream = scenario.subject.kind == SubjectKind::kStream;
    const std::string unit = is_stream ? "frame" : "generation";
    Chart chart{.file = numbered("stage_times", drawn.charts.size()),
                .title = fmt::format("Where the time of a {} goes", unit),
                .subtitle = subtitle_of(scenario),
                .of = {&scenario},
                .option = draw(rows, unit),
                .notes = {is_stream ? "Means over all frames, from in to out."
                                    : "Medians of whole generations, stage by stage."},
                .height = height_of_bars(rows.size()) + 28};
    if (has_floors)
      chart.notes.emplace_back(
          "A whisker begins with its stage and is as long as the least that the machine could take for it.");
    note_revisions(chart.notes, shown);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out =
      "no result has three stages or more of a request, as `ladder` and `bench --pass request` tell those of a "
      "pipeline, or is of a stream";
  return drawn;
}

}  // namespace headroom::charts
