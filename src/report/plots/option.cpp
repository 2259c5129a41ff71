#include "report/plots/option.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/text/format.hpp"
#include "measure/tables/table.hpp"
#include "report/render/html.hpp"

namespace headroom {

using nlohmann::json;

namespace {

constexpr double kNarrow = 600;  // pixels
constexpr double kWidePlot = 900;
constexpr double kNarrowPlot = 330;  // of a screen of 390
constexpr double kNameWidth = 300;   // of names next to an axis
constexpr int kNameLine = 13;        // pixels from one line of a name to the next
constexpr std::size_t kLongestName = 160;

/// Room for the longest of `names`, by the typical letter width of the font.
double width_of(const std::vector<std::string>& names, double font_size) {
  std::size_t longest = 1;
  for (const std::string& name : names) longest = std::max(longest, display_width(name));
  return std::ceil(0.66 * font_size * static_cast<double>(longest)) + 4;
}

/// The lines of `texts`.
std::vector<std::string> lines_of(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts)
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
      end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
    }
  return lines;
}

/// On a narrow screen a text breaks at its first gap of two blanks; see label_narrow in assets/charts.js.
std::vector<std::string> broken(std::vector<std::string> texts) {
  for (std::string& text : texts)
    if (const std::size_t gap = text.find("  "); gap != std::string::npos) text.replace(gap, 2, "\n");
  return texts;
}

/// Number of lines of a legend in this width.
int legend_lines(const std::vector<std::string>& names, double width, double font_size) {
  constexpr double kSymbol = 30, kGap = 10;
  int lines = 1;
  double x = 0;
  for (const std::string& name : names) {
    const double item = kSymbol + width_of({name}, font_size);
    if (x > 0 && x + item > width) {
      ++lines;
      x = 0;
    }
    lines += static_cast<int>(item / width);  // a name that is broken
    x += item + kGap;
  }
  return lines;
}

/// The reasons why drawn measurements are not settled.
std::vector<std::string> notes_on_unsettled(const std::vector<const Measurement*>& drawn) {
  std::vector<std::string> notes;
  for (const Measurement* m : drawn)
    if (m->unsettled && !m->result->same_as)
      notes.push_back(fmt::format("{} is unsettled, and nothing is claimed of it: {}.", m->label, *m->unsettled));
  return notes;
}

/// The switches that declined in drawn measurements, each once for each reason.
std::vector<std::string> notes_on_declined(const std::vector<const Measurement*>& drawn) {
  std::vector<std::pair<std::string, std::string>> declined;  // switch, reason
  for (const Measurement* m : drawn)
    for (const DeclinedSwitch& one : m->result->configuration.declined)
      if (std::pair pair(one.name, one.reason); std::ranges::find(declined, pair) == declined.end())
        declined.push_back(std::move(pair));
  std::vector<std::string> notes;
  for (const auto& [name, reason] : declined) {
    std::size_t asked = 0, with_reason = 0;
    bool alone = true;
    for (const Measurement* m : drawn) {
      const std::vector<DeclinedSwitch>& all = m->result->configuration.declined;
      asked += std::ranges::count(m->switches(), name);
      if (std::ranges::find(all, DeclinedSwitch{name, reason}) == all.end()) continue;
      ++with_reason;
      alone = alone && m->switches().size() == 1;
    }
    const std::string_view where = with_reason == asked ? "" : alone ? " alone" : " in some configurations";
    notes.push_back(fmt::format("{} declined{}: {}", name, where, reason));
  }
  return notes;
}

/// Seven significant digits, and all digits of a whole number or of the whole part of a large one; further digits
/// of a double are below measurement precision.
std::string exact_digits(double value) {
  const bool is_whole = value == std::floor(value) || std::abs(value) >= 1e7;
  if (is_whole && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  std::string text = fmt::format("{:.7g}", value);
  if (const std::size_t at = text.find('e'); at != std::string::npos)
    text = text.substr(0, at) + fmt::format("e{}", std::stoi(text.substr(at + 1)));  // e-6, as format_significant()
  return text;
}

}  // namespace

json fn(std::string_view name) { return {{"$fn", name}}; }
json color(std::string_view role) { return {{"$color", role}}; }

std::string label_ms(double ms) { return format_ms(ms); }

std::string label_bytes(double bytes) {
  if (bytes >= 0x1p63) return format_significant(bytes) + " B";
  return format_bytes(static_cast<std::uint64_t>(std::max(0.0, bytes)));
}

std::string label_factor(double factor) { return format_factor(factor); }

std::string label_factor(const Estimate& factor) {
  return label_factor(factor.value) + (factor.interval ? " " + format_interval(*factor.interval) : "");
}

std::string label_si(double value, std::string_view unit) {
  static constexpr std::array<std::pair<double, std::string_view>, 6> kUnits = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
  for (const auto& [size, prefix] : kUnits)
    if (std::abs(value) >= size * 0.9995) return fmt::format("{} {}{}", format_significant(value / size), prefix, unit);
  return fmt::format("{} {}", format_significant(value), unit);
}

std::string exact(double value, std::string_view unit) {
  return fmt::format("{}{}{}", exact_digits(value), unit.empty() ? "" : " ", unit);
}

std::string exact(const Interval& interval, std::string_view unit) {
  return fmt::format("{} to {}", exact_digits(interval.low), exact(interval.high, unit));
}

Tip::Tip(std::string_view title) : json_({{"title", title}, {"rows", json::array()}}) {}

Tip& Tip::row(std::string_view name, std::string_view value) {
  json_["rows"].push_back(json::array({name, value}));
  return *this;
}

Tip& Tip::timing(const Measurement& measurement) {
  const Timing& timing = measurement.time();
  row(fmt::format("median per {}", timing.unit), exact(timing.median_ms, "ms"));
  row("95% interval", timing.interval_ms ? exact(*timing.interval_ms, "ms") : "none: " + timing.no_interval);
  row("trials", timing.series == timing.unit || timing.series == "forward"
                    ? fmt::format("{}", timing.trials_ms.size())
                    : fmt::format("{} of a {}", timing.trials_ms.size(), timing.series));
  if (measurement.unsettled) row("unsettled", *measurement.unsettled);
  if (measurement.result->same_as) row("not measured, its figures are those of", *measurement.result->same_as);
  for (const DeclinedSwitch& declined : measurement.result->configuration.declined)
    row(fmt::format("{} declined", declined.name), declined.reason);
  if (!measurement.result->tags.empty()) row("tags", fmt::format("{}", fmt::join(measurement.result->tags, ", ")));
  return *this;
}

Tip& Tip::factor(std::string_view name, const std::optional<Estimate>& factor) {
  if (!factor) return row(name, "not known");
  const std::string value = exact(factor->value, "times as fast");
  return row(name, factor->interval ? fmt::format("{} ({})", value, exact(*factor->interval, "")) : value);
}

json base_option() {
  return {{"animation", false},
          {"aria", {{"enabled", true}}},
          {"tooltip", {{"trigger", "item"}, {"confine", true}, {"formatter", fn("tooltip")}}}};
}

json name_axis(std::vector<std::string> names) {
  names = cut_names(names, kLongestName);
  std::map<std::string, int> seen;
  for (std::string& name : names)
    if (const int count = ++seen[name]; count > 1) name += fmt::format(" ({})", count);
  const double width = width_of(names, 12);
  return {{"type", "category"},
          {"inverse", true},
          {"data", std::move(names)},
          {"axisLabel",
           {{"width", std::min(width, kNameWidth)},
            {"overflow", "break"},
            {"lineHeight", kNameLine},
            {"interval", 0},
            {"formatter", fn("axis_name")}}}};
}

json item_style(std::string_view role, bool is_hollow) {
  if (!is_hollow) return {{"color", color(role)}};
  return {{"color", color("panel")}, {"borderColor", color(role)}, {"borderWidth", 2}, {"borderType", "dashed"}};
}

json& narrow_option(json& option) {
  json& media = option["media"];
  if (media.is_null()) media = json::array({{{"query", {{"maxWidth", kNarrow}}}, {"option", json::object()}}});
  return media[0]["option"];
}

void fit_bars(json& option, const std::vector<std::string>& texts, const std::vector<std::string>& narrow_texts) {
  option["grid"]["right"] = 8 + width_of(lines_of(texts), 12);
  json series = json::array();
  for (const json& one : option["series"]) {
    series.push_back(json::object());
    if (one["type"] == "bar") series.back()["barMaxWidth"] = 12;
    if (one.contains("label"))
      series.back()["label"] = {{"fontSize", 10},
                                {"lineHeight", 11},
                                {"distance", one["type"] == "bar" ? 4 : 10},
                                {"offset", json::array({0, 3})},
                                {"formatter", fn("label_narrow")}};
  }
  json& narrow = narrow_option(option);
  narrow["series"] = std::move(series);
  narrow["grid"]["left"] = 8;
  narrow["grid"]["right"] = 4 + width_of(lines_of(broken(narrow_texts.empty() ? texts : narrow_texts)), 10);
  // The name of the value axis begins at the start of the axis, since it may be longer than the axis.
  narrow["xAxis"] = {
      {"splitNumber", 2},
      {"nameLocation", "start"},
      {"nameGap", 0},
      {"nameTextStyle",
       {{"align", "left"}, {"verticalAlign", "top"}, {"fontSize", 11}, {"padding", json::array({24, 0, 0, 0})}}}};
  narrow["yAxis"] = {{"axisLabel",
                      {{"inside", true},
                       {"margin", 0},
                       {"align", "left"},
                       {"verticalAlign", "bottom"},
                       {"padding", json::array({0, 0, 8, 0})},
                       {"width", kNarrowPlot - 30},
                       {"fontSize", 10},
                       {"lineHeight", 11}}}};
}

void add_legend(json& option, const std::vector<std::string>& names, int gap) {
  constexpr int kLine = 24;
  option["legend"] = {{"type", "plain"}, {"top", 0}, {"left", 0}, {"data", names}};
  option["grid"]["top"] = kLine * legend_lines(names, kWidePlot, 12) + gap;
  json& narrow = narrow_option(option);
  narrow["legend"] = {
      {"itemWidth", 16},
      {"textStyle", {{"fontSize", 11}, {"lineHeight", 13}, {"width", kNarrowPlot - 40}, {"overflow", "break"}}}};
  int height = kLine * legend_lines(names, kNarrowPlot, 11);
  if (width_of(names, 11) < kNarrowPlot - 40) {
    narrow["legend"]["textStyle"].erase("width");
  } else {  // the library leaves room for the lines of a broken name only below each other
    narrow["legend"]["orient"] = "vertical";
    height = 0;
    for (const std::string& name : names) height += 13 * legend_lines({name}, kNarrowPlot - 40, 11) + 11;
  }
  narrow["grid"]["top"] = height + gap;
}

int height_below_legend(const json& option, int plot) {
  return option.at("media").at(0).at("option").at("grid").at("top").get<int>() + plot;
}

json value_axis(std::string_view name, std::string_view axis_fn) {
  return {{"type", "value"},
          {"name", name},
          {"nameLocation", "middle"},
          {"nameGap", 30},
          {"axisLabel", {{"formatter", fn(axis_fn)}, {"hideOverlap", true}}}};
}

json value_label(const json& changes) {
  json label = {{"show", true},
                {"position", "right"},
                {"distance", 8},
                {"color", color("text")},
                {"textBorderColor", color("panel")},
                {"textBorderWidth", 3},
                {"formatter", fn("label")}};
  label.update(changes);
  return label;
}

json dashed_line(std::string_view axis, double value) {
  json at = json::object();
  at[std::string(axis)] = value;
  return {{"silent", true},
          {"symbol", "none"},
          {"precision", 15},  // the library's default rounds the position to two decimals
          {"label", {{"show", false}}},
          {"lineStyle", {{"type", "dashed"}, {"color", color("axis")}}},
          {"data", json::array({at})}};
}

json horizontal_whiskers(json intervals) {
  return {{"type", "custom"},
          {"silent", true},
          {"z", 5},
          {"renderItem", fn("interval_x")},
          {"itemStyle", {{"color", color("whisker")}}},
          {"encode", {{"x", json::array({1, 2})}, {"y", 0}}},
          {"data", std::move(intervals)}};
}

json vertical_whiskers(json intervals) {
  return {{"type", "custom"},
          {"silent", true},
          {"renderItem", fn("interval_y")},
          {"itemStyle", {{"color", color("whisker")}}},
          {"encode", {{"x", 0}, {"y", json::array({1, 2})}}},
          {"data", std::move(intervals)}};
}

json line_whiskers(json intervals, const std::string& line, std::string_view role) {
  json whiskers = vertical_whiskers(std::move(intervals));
  whiskers.update({{"name", line}, {"z", 5}, {"itemStyle", {{"color", color(role)}}}});
  return whiskers;
}

namespace {

/// The divisions of an axis of bytes on which `room` pixels are left for its labels.
json byte_divisions(double most, double room) {
  constexpr double kLabel = 66;  // "1000 MiB" and a gap
  const double divisions = std::clamp(std::floor(room / kLabel), 1.0, 5.0);
  double interval = 1;
  while (interval * divisions < most) interval *= 2;
  return {{"interval", interval}, {"max", std::max(1.0, std::ceil(most / interval)) * interval}};
}

/// The width that the margins of a grid leave of a plot.
double room_in(const json& grid, double width) { return width - grid.value("left", 0.0) - grid.value("right", 0.0); }

}  // namespace

void set_byte_axis(json& option, std::string_view name, double most) {
  json axis = value_axis(name, "axis_bytes");
  const json& names = option["yAxis"]["axisLabel"];
  const double named = option["yAxis"].value("type", "") == "category" ? names.value("width", 0.0) : 0;
  axis.update(byte_divisions(most, room_in(option["grid"], kWidePlot) - named));
  axis["min"] = 0;
  option["xAxis"].update(axis);
  json& narrow = narrow_option(option);
  narrow["xAxis"].update(byte_divisions(most, room_in(narrow["grid"], kNarrowPlot)));
}

json horizontal_bars(const std::vector<Bar>& bars, std::string_view axis_name, std::string_view axis_fn) {
  std::vector<std::string> names, texts;
  json items = json::array(), ends = json::array(), intervals = json::array();
  for (const Bar& bar : bars) {
    names.push_back(bar.name);
    texts.push_back(bar.text);
    items.push_back({{"value", bar.value},
                     {"name", bar.name},
                     {"text", bar.text},
                     {"tip", bar.tip},
                     {"itemStyle", item_style(bar.role, bar.is_hollow)}});
    ends.push_back({{"value", bar.interval ? std::max(bar.value, bar.interval->high) : bar.value}, {"text", bar.text}});
    if (bar.interval) intervals.push_back(json::array({names.size() - 1, bar.interval->low, bar.interval->high}));
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"top", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis(axis_name, axis_fn);
  option["xAxis"]["min"] = 0;
  option["series"] = json::array();
  option["series"].push_back({{"type", "bar"}, {"data", items}, {"barMaxWidth", 26}, {"barGap", "-100%"}});
  // Invisible bars, as long as the whiskers, carry the texts after both, above a dashed line.
  option["series"].push_back({{"type", "bar"},
                              {"silent", true},
                              {"z", 6},
                              {"barMaxWidth", 26},
                              {"itemStyle", {{"color", "transparent"}}},
                              {"label", value_label({{"fontSize", 12}})},
                              {"data", ends}});
  if (!intervals.empty()) option["series"].push_back(horizontal_whiskers(std::move(intervals)));
  fit_bars(option, texts);
  return option;
}

int height_of_bars(const std::vector<std::string>& names) {
  const double lines = std::ceil(width_of(cut_names(names, kLongestName), 12) / kNameWidth);
  // On a narrow screen the lines of a name are placed between two bars, level with the second line of a text.
  const int row = std::max(44, kNameLine * static_cast<int>(lines) + 28);
  return 60 + row * static_cast<int>(std::max<std::size_t>(names.size(), 2));
}

std::vector<std::string> names_of(const std::vector<Bar>& bars) {
  std::vector<std::string> names;
  for (const Bar& bar : bars) names.push_back(bar.name);
  return names;
}

std::string subtitle_of(const Scenario& scenario) { return fmt::format("{}; {}", scenario.work, scenario.hardware); }

namespace {

/// The first few names and the number of the rest; the table has all.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  if (names.size() <= kMost + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} others", fmt::join(names.begin(), names.begin() + kMost, ", "), names.size() - kMost);
}

constexpr const char* kWhiskers = "Whiskers are the 95% interval of the median.";

std::string sentence_of_tag(const std::string& tag) {
  if (tag == "random_weights") return "The weights are random: times are real, images are not.";
  if (tag == "forced") return "A schedule fixes which steps a cache reuses, whatever is measured (tag forced).";
  if (tag == "forced_comparison")
    return "Compared in spite of differences in machine, build or configuration (tag forced_comparison).";
  return fmt::format("Results are tagged {}.", tag);
}

void note_repetitions(std::vector<std::string>& notes, const Scenario& scenario,
                      const std::vector<const Measurement*>& drawn) {
  const auto is_drawn = [&](const Measurement* m) { return std::ranges::find(drawn, m) != drawn.end(); };
  const std::int64_t others = std::ranges::count_if(scenario.all, [&](const Measurement* m) { return !is_drawn(m); });
  if (others == 0) return;
  const bool is_one_run = std::ranges::all_of(
      drawn, [&](const Measurement* m) { return std::ranges::find(scenario.run, m) != scenario.run.end(); });
  notes.push_back(fmt::format("{}; {} of the same work {} in the table.",
                              is_one_run
                                  ? fmt::format("One run is drawn, that of {}", scenario.run.front()->file->created)
                                  : "Each configuration is drawn by its latest measurement",
                              format_count(others, "other measurement"), others == 1 ? "is" : "are"));
}

}  // namespace

void note_whiskers(std::vector<std::string>& notes, std::span<const Measurement* const> drawn) {
  std::set<std::string> reasons;
  std::int64_t without = 0;
  for (const Measurement* m : drawn) {
    if (m->time().interval_ms) continue;
    reasons.insert(m->time().no_interval);
    ++without;
  }
  if (without < std::ssize(drawn)) notes.emplace_back(kWhiskers);
  if (without > 0)
    notes.push_back(fmt::format("{} no whisker: {}.",
                                without == 1 ? "1 point has" : fmt::format("{} points have", without),
                                fmt::join(reasons, "; ")));
}

std::vector<std::string> notes_on(const Scenario& scenario, const std::vector<const Measurement*>& drawn) {
  std::vector<std::string> notes = notes_on_declined(drawn), without;
  std::set<std::string> tags;
  bool has_interval = false;
  for (const Measurement* m : drawn) {
    if (m->timing && !m->time().interval_ms) without.push_back(fmt::format("{} ({})", m->label, m->time().no_interval));
    if (m->timing && m->time().interval_ms) has_interval = true;
    tags.insert(m->result->tags.begin(), m->result->tags.end());
  }
  if (has_interval) notes.insert(notes.begin(), kWhiskers);
  if (!without.empty()) notes.push_back(fmt::format("Drawn without an interval: {}.", fmt::join(without, ", ")));
  const auto has_no_factor_interval = [](const Measurement* m) {
    return m->timing && m->time().interval_ms && !m->unsettled && !why_no_factor_interval(*m->result).empty();
  };
  if (const auto found = std::ranges::find_if(drawn, has_no_factor_interval); found != drawn.end())
    notes.push_back(fmt::format("Factors without an interval: {}.", why_no_factor_interval(*(*found)->result)));
  for (std::string& note : notes_on_unsettled(drawn)) notes.push_back(std::move(note));
  for (const std::string& tag : tags) notes.push_back(sentence_of_tag(tag));
  note_repetitions(notes, scenario, drawn);
  note_revisions(notes, drawn);
  return notes;
}

void note_revisions(std::vector<std::string>& notes, std::span<const Measurement* const> drawn) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> programs;  // labels by revision
  for (const Measurement* m : drawn) programs[m->result->source.name][m->revision()].insert(m->label);
  for (const auto& [program, revisions] : programs) {
    if (revisions.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [revision, labels] : revisions)
      parts.push_back(fmt::format("{} ({})", revision, some_of({labels.begin(), labels.end()})));
    notes.push_back(
        fmt::format("Measured at different revisions of {}, not side by side: {}.", program, fmt::join(parts, "; ")));
  }
}

void note_unsettled(std::vector<std::string>& notes, std::span<const Measurement* const> drawn) {
  std::vector<std::string> names;
  std::string reason;
  for (const Measurement* m : drawn) {
    if (!m->unsettled) continue;
    if (names.empty()) reason = *m->unsettled;
    names.push_back(m->label);
  }
  if (names.empty()) return;
  const std::string more = names.size() == 1 ? "" : fmt::format("; and {} more", names.size() - 1);
  notes.push_back(fmt::format("Unsettled, and nothing is claimed of {}: {} ({}{}).", names.size() == 1 ? "it" : "them",
                              some_of(names), reason, more));
}

void note_declined(std::vector<std::string>& notes, const std::string& name, std::span<const Placed> placed) {
  std::vector<std::pair<DeclinedSwitch, std::vector<std::string>>> declined;
  std::vector<std::string> unsettled;
  for (const auto& [place, m] : placed) {
    if (m->unsettled) unsettled.push_back(place);
    for (const DeclinedSwitch& one : m->result->configuration.declined) {
      auto found = std::ranges::find(declined, one, [](const auto& pair) { return pair.first; });
      if (found == declined.end()) found = declined.insert(declined.end(), {one, {}});
      found->second.push_back(place);
    }
  }
  for (const auto& [one, places] : declined)
    notes.push_back(fmt::format("{}: {} declined{}: {}", name, one.name,
                                places.size() == placed.size() ? "" : fmt::format(" ({})", some_of(places)),
                                one.reason));
  if (!unsettled.empty())
    notes.push_back(fmt::format("{} is unsettled, and nothing is claimed of it: {}.", name, some_of(unsettled)));
}

std::string numbered(std::string_view file, std::size_t index) {
  return index == 0 ? std::string(file) : fmt::format("{}-{}", file, index + 1);
}

}  // namespace headroom
