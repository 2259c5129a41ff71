// Time of a generation by stage, with the floor of each stage on the machine; for a stream, the time of a frame.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>

#include "measure/statistics/statistics.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr std::string_view kOnHost = "on the host";

/// One drawn segment of a stage; all host stages share one.
struct Piece {
  std::string name;
  double ms = 0;
  std::optional<double> floor_ms = {};
  Interval range_ms = {ms, ms};  ///< 95% interval of the time; with few trials, from the least to the most
};

struct StageRow {
  std::string name;
  std::vector<Piece> pieces;  // in the order they run, the host's last
  std::size_t trials = 0;     // generations or frames
  bool is_unsettled = false;

  [[nodiscard]] double total_ms() const {
    double total = 0;
    for (const Piece& piece : pieces) total += piece.ms;
    return total;
  }
  [[nodiscard]] Interval range_ms() const {
    Interval range{0, 0};
    for (const Piece& piece : pieces) {
      range.low += piece.range_ms.low;
      range.high += piece.range_ms.high;
    }
    return range;
  }
  [[nodiscard]] const Piece* find(const std::string& stage) const {
    const auto found = std::ranges::find(pieces, stage, &Piece::name);
    return found == pieces.end() ? nullptr : &*found;
  }
};

/// A segment from the stage's own trials, which are few.
Piece piece_of(const Measurement& m, const StageRecord& stage) {
  const TrialSeries& series = series_of(*m.result, stage.name);
  const auto [least, most] = std::ranges::minmax(series.time_ms);
  return {.name = stage.name,
          .ms = series.statistics.median,
          .floor_ms = stage.floor_ms,
          .range_ms = series.statistics.median_interval.value_or(Interval{least, most})};
}

/// Makes the denoise loop what the other stages leave of the configuration's time, which is known from many steps. So
/// the segments sum to the time that all charts show.
void fit_denoise(StageRow& row, const Measurement& m) {
  const auto denoise = std::ranges::find(row.pieces, "denoise", &Piece::name);
  if (denoise == row.pieces.end() || !m.timing || m.time().series != "step") return;
  const double images = batch_of(m.result->subject).value_or(1), others = row.total_ms() - denoise->ms;
  const auto rest = [&](double image_ms) { return std::max(0.0, image_ms * images - others); };
  const Interval image = m.time().interval_ms.value_or(Interval{m.time().median_ms, m.time().median_ms});
  denoise->ms = rest(m.time().median_ms);
  denoise->range_ms = {rest(image.low), rest(image.high)};
}

/// Names of the stages that ran on the device, in any configuration of a work.
std::set<std::string> device_stages_of(const Scenario& scenario) {
  std::set<std::string> names;
  for (const Measurement* m : scenario.current)
    for (const StageRecord& stage : m->result->stages)
      if (stage.memory_bytes) names.insert(stage.name);
  return names;
}

/// Other programs do not report the memory of a stage, so theirs are on the device if ours of the same name are.
bool is_on_host(const Measurement& m, const StageRecord& stage, const std::set<std::string>& device_stages) {
  if (stage.memory_bytes) return false;
  return !m.is_peer || (!device_stages.empty() && !device_stages.contains(stage.name));
}

StageRow row_of(const Measurement& m, const std::set<std::string>& device_stages) {
  StageRow row{.name = m.shown_name(), .pieces = {}, .is_unsettled = m.unsettled.has_value()};
  Piece host{.name = std::string(kOnHost)};
  for (const StageRecord& stage : m.result->stages) {
    Piece piece = piece_of(m, stage);
    row.trials = std::max(row.trials, series_of(*m.result, stage.name).time_ms.size());
    if (!is_on_host(m, stage, device_stages)) {
      row.pieces.push_back(std::move(piece));
      continue;
    }
    host.ms += piece.ms;
    host.range_ms.low += piece.range_ms.low;
    host.range_ms.high += piece.range_ms.high;
  }
  if (host.ms > 0) row.pieces.push_back(std::move(host));
  fit_denoise(row, m);
  return row;
}

/// For a stream: means over its frames, since means add up.
StageRow row_of_frames(const Measurement& m) {
  const LatencyRecord& record = *m.result->latency;
  const auto mean = [](const std::vector<double>& ms) {
    return std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(ms.size());
  };
  return {.name = m.shown_name(),
          .pieces = {{"decode", mean(record.decode_ms)},
                     {"queue", mean(record.queue_ms)},
                     {"device", mean(record.device_ms)},
                     {"encode", mean(record.encode_ms)}},
          .trials = record.latency_ms.size(),
          .is_unsettled = m.unsettled.has_value()};
}

std::vector<std::string> stages_of(const std::vector<StageRow>& rows) {
  std::vector<std::string> names;
  for (const StageRow& row : rows)
    for (const Piece& piece : row.pieces)
      if (piece.name != kOnHost && std::ranges::find(names, piece.name) == names.end()) names.push_back(piece.name);
  const auto has_host = [](const StageRow& row) { return row.find(std::string(kOnHost)) != nullptr; };
  if (std::ranges::any_of(rows, has_host)) names.emplace_back(kOnHost);
  return names;
}

json tip_of(const StageRow& row, const std::string& unit) {
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

/// The text after a row: its time, and the number of trials.
std::string text_of(const StageRow& row) {
  return fmt::format("{}  n = {}{}", label_ms(row.total_ms()), row.trials, row.is_unsettled ? ", unsettled" : "");
}

/// The floors of the stages, each from the beginning of its stage; a floor above the stage's time is clipped to it.
json floors_of(const std::vector<StageRow>& rows) {
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

json draw(const std::vector<StageRow>& rows, const std::string& unit) {
  std::vector<std::string> names, texts;
  json ends = json::array(), ranges = json::array();
  for (const StageRow& row : rows) {
    const Interval range = row.range_ms();
    if (range.high > range.low) ranges.push_back(json::array({names.size(), range.low, range.high}));
    names.push_back(row.name);
    texts.push_back(text_of(row));
    ends.push_back({{"value", std::max(range.high, row.total_ms())}, {"text", texts.back()}});
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis("time of a " + unit, "axis_ms");
  option["series"] = json::array();
  const std::vector<std::string> stages = stages_of(rows);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    json data = json::array();
    for (const StageRow& row : rows) {
      const Piece* const piece = row.find(stages[s]);
      data.push_back({{"value", piece == nullptr ? 0.0 : piece->ms}, {"tip", tip_of(row, unit)}});
      if (row.is_unsettled) data.back()["itemStyle"] = {{"opacity", 0.35}};
    }
    option["series"].push_back({{"type", "bar"},
                                {"stack", "stages"},
                                {"name", stages[s]},
                                {"barMaxWidth", 26},
                                {"data", std::move(data)},
                                {"itemStyle", {{"color", color(role_of(stages[s], s))}}}});
  }
  // Invisible bars carry the texts, to the right of bars and whiskers.
  option["series"].push_back({{"type", "bar"},
                              {"silent", true},
                              {"barMaxWidth", 26},
                              {"barGap", "-100%"},
                              {"itemStyle", {{"color", "transparent"}}},
                              {"label", value_label()},
                              {"data", std::move(ends)}});
  if (json floors = floors_of(rows); !floors.empty()) {
    option["series"].push_back(horizontal_whiskers(std::move(floors)));
    option["series"].back()["renderItem"] = fn("inner_bar");
  }
  if (!ranges.empty()) option["series"].push_back(horizontal_whiskers(std::move(ranges)));
  fit_bars(option, texts);
  add_legend(option, stages, 12);
  return option;
}

}  // namespace

Drawn stage_times(const Dataset& dataset) {
  constexpr std::size_t kFewest = 3;  // a loop and its inputs need no chart
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    std::vector<StageRow> rows;
    std::vector<const Measurement*> shown;
    bool has_floors = false;
    const std::set<std::string> device_stages = device_stages_of(scenario);
    for (const Measurement* m : scenario.current) {
      if (m->result->stages.size() < kFewest && !m->result->latency) continue;
      shown.push_back(m);
      rows.push_back(m->result->latency ? row_of_frames(*m) : row_of(*m, device_stages));
      has_floors |=
          std::ranges::any_of(rows.back().pieces, [](const Piece& piece) { return piece.floor_ms.has_value(); });
    }
    if (rows.empty()) continue;
    std::vector<std::string> names;
    for (const StageRow& row : rows) names.push_back(row.name);
    const bool is_stream = scenario.subject.kind == SubjectKind::kStream;
    const std::string unit = is_stream ? "frame" : "generation";
    Chart chart{.file = numbered("stage_times", drawn.charts.size()),
                .title = fmt::format("Where the time of a {} goes", unit),
                .subtitle = subtitle_of(scenario),
                .of = {&scenario},
                .option = draw(rows, unit),
                .notes = {is_stream ? "Means over all n frames, from in to out."
                                    : "Stages are medians of n generations; the denoise loop is what they leave of the "
                                      "configuration's time, which many steps tell. Whiskers are the sum of the 95% "
                                      "intervals, or of the least and the most where trials are too few for one."},
                .height = height_of_bars(names) + 52};
    if (has_floors)
      chart.notes.emplace_back(
          "The bright line inside a stage is its floor: the least that the machine could take for it.");
    note_unsettled(chart.notes, shown);
    note_revisions(chart.notes, shown);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out =
      "no result has three stages or more of a request, as `ladder` and `bench --pass request` tell those of a "
      "pipeline, or is of a stream";
  return drawn;
}

}  // namespace headroom::charts
