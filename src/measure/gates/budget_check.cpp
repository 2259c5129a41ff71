#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/switches.hpp"
#include "base/target.hpp"
#include "base/text/format.hpp"
#include "measure/gates/budget.hpp"
#include "measure/gates/budget_file.hpp"
#include "measure/results/timing.hpp"
#include "measure/statistics/tail.hpp"
#include "measure/suites/benchmark_names.hpp"
#include "measure/tables/table.hpp"

/// Checks results against the rows of a budget file.
namespace headroom {
namespace {

bool fits_pattern(const std::optional<BudgetPattern>& pattern, const std::string& text) {
  return !pattern || pattern->filter->takes_whole(text);
}

std::vector<std::string> sorted_names(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

/// Whether `list` names the switches and presets that were asked for, for some target: a preset omits switches that
/// its device does not support.
bool is_asked_as(const std::string& list, const Configuration& configuration) {
  SwitchSet set;
  try {
    set = SwitchSet::parse(list);
  } catch (const Error&) {  // a regular expression
    return false;
  }
  const std::vector<std::string> asked = sorted_names(configuration.asked);
  if (sorted_names(set.names()) == asked) return true;
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    if (configuration.device != name_of(device)) continue;
    const Target narrow{.device = device}, wide{.device = device, .cpu_isa = CpuIsa::kAmx, .compute_capability = 90};
    for (const Target& target : {narrow, wide})
      if (sorted_names(set.for_target(target).names()) == asked) return true;
  }
  return false;
}

bool fits_opt(const std::optional<BudgetPattern>& pattern, const Result& result) {
  if (!pattern) return true;
  const Configuration& configuration = result.configuration;
  for (const char* separator : {",", "+"})
    for (const std::vector<std::string>* names : {&configuration.asked, &configuration.applied})
      if (!names->empty() && pattern->filter->takes_whole(fmt::format("{}", fmt::join(*names, separator)))) return true;
  std::string listed = pattern->text;  // tables join switches with "+"
  std::ranges::replace(listed, '+', ',');
  return pattern->filter->takes_whole(result.name) || is_asked_as(pattern->text, configuration) ||
         is_asked_as(listed, configuration);
}

std::optional<std::int64_t> request_whole(const Result& result, const char* key) {
  const auto found = result.subject.request.find(key);
  if (found == result.subject.request.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

/// Pixels along one side, from the request's pixels or its tokens.
std::optional<std::int64_t> pixels_of(const Result& result, const char* pixels, const char* tokens,
                                      TokenSizes& token_sizes) {
  if (const auto own = request_whole(result, pixels)) return own;
  const std::optional<std::int64_t> of_token = token_sizes.of(result.subject);
  if (!of_token) return std::nullopt;
  if (const auto along = request_whole(result, tokens)) return *along * *of_token;
  const auto all = request_whole(result, "image_tokens");  // of a forward pass, whose image is assumed to be square
  if (!all) return std::nullopt;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(*all))));
  return side * side == *all ? std::optional(side * *of_token) : std::nullopt;
}

std::int64_t batch_of(const Result& result) {
  return request_whole(result, "images").value_or(request_whole(result, "batch").value_or(1));
}

bool has_members(const nlohmann::json& request, const nlohmann::json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    const auto found = request.find(key);
    if (found == request.end() || *found != value) return false;
  }
  return true;
}

/// A value that is compared with a limit.
struct Figure {
  double value = 0;
  std::optional<Interval> interval;
  std::string obstacle = {};  ///< why it cannot be judged, or empty
  std::string fault = {};     ///< why it misses any limit, or empty
  std::string note = {};      ///< remark for the reader, or empty
};

const TrialSeries* times_of(const Result& result, const std::string& series) {
  if (result.trials.empty()) return nullptr;
  if (const TrialSeries* const named = find_series(result, series.empty() ? "image" : series)) return named;
  return series.empty() ? &result.trials.front() : nullptr;
}

std::string obstacle_of_times(const Result& result) {
  const std::optional<std::string> why = why_unsettled(result);
  return why ? fmt::format("unsettled: {}", *why) : "";
}

std::optional<Figure> time_of(const Result& result, const std::string& series) {
  if (result.latency && series.empty()) {
    const std::int64_t frames = std::ssize(result.latency->latency_ms);
    return Figure{.value = result.latency->statistics.p50_ms,
                  .interval = exact_median_interval(result.latency->latency_ms),
                  .obstacle = frames < kFewestForInterval ? too_few_for_interval(frames, "frame") : ""};
  }
  const TrialSeries* times = times_of(result, series);
  if (times == nullptr) return std::nullopt;
  Figure figure{
      .value = times->statistics.median, .interval = interval_of(*times), .obstacle = obstacle_of_times(result)};
  if (figure.obstacle.empty()) figure.obstacle = why_no_interval(*times);
  return figure;
}

std::optional<Figure> p99_of_result(const Result& result, const std::string& series) {
  if (result.latency && series.empty()) {
    const std::int64_t frames = std::ssize(result.latency->latency_ms);
    Figure figure{.value = result.latency->statistics.p99_ms,
                  .interval = {},
                  .obstacle = frames < kTrialsOfP99 ? too_few_for_p99(frames) : ""};
    if (result.latency->dropped > 0)
      figure.fault =
          fmt::format("{} of {} frames came too late and were dropped", result.latency->dropped, result.latency->came);
    return figure;
  }
  const TrialSeries* times = times_of(result, series);
  if (times == nullptr) return std::nullopt;
  Figure figure{.value = times->statistics.p99, .interval = {}, .obstacle = obstacle_of_times(result)};
  if (figure.obstacle.empty() && times->statistics.n < kTrialsOfP99)
    figure.obstacle = too_few_for_p99(times->statistics.n);
  return figure;
}

/// Images, samples, frames or launches per second.
std::optional<Figure> throughput_of(const Result& result, const std::string& series) {
  if (result.latency && series.empty()) {
    if (result.latency->seconds <= 0) return std::nullopt;
    return Figure{.value = static_cast<double>(result.latency->shown) / result.latency->seconds, .interval = {}};
  }
  const TrialSeries* times = times_of(result, series);
  std::optional<Figure> time = time_of(result, series);
  if (times == nullptr || !time) return std::nullopt;
  const double at_once = times->what == "image" ? 1 : static_cast<double>(batch_of(result));
  const auto rate = [&](double ms) { return 1000 * at_once / ms; };
  Figure figure{.value = rate(time->value), .interval = {}, .obstacle = time->obstacle};
  if (time->interval) figure.interval = Interval{rate(time->interval->high), rate(time->interval->low)};
  return figure;
}

/// The values of a quantity in a result; for a quality, one for each reference.
std::vector<Figure> figures_of(const Result& result, Quantity quantity, const std::string& series) {
  std::vector<Figure> figures;
  const auto add = [&](std::optional<Figure> figure) {
    if (figure) figures.push_back(std::move(*figure));
  };
  const auto add_bytes = [&](const std::optional<std::int64_t>& bytes) {
    if (bytes) figures.push_back({.value = static_cast<double>(*bytes), .interval = {}});
  };
  if (quantity == Quantity::kTime) add(time_of(result, series));
  if (quantity == Quantity::kP99) add(p99_of_result(result, series));
  if (quantity == Quantity::kMemory && result.memory) add_bytes(result.memory->peak_bytes);
  if (quantity == Quantity::kSize && result.memory) add_bytes(result.memory->weights_bytes);
  for (const QualityRecord& record : result.quality) {
    if (record.metric != info_of(quantity).metric) continue;
    if (record.value)
      figures.push_back({.value = *record.value,
                         .interval = record.interval,
                         .note = record.interval ? "" : "; the file gives no interval"});
    else if (quantity == Quantity::kPsnr)  // identical images
      figures.push_back({.value = std::numeric_limits<double>::infinity(), .interval = {}});
  }
  return figures;
}

class BudgetChecker {
 public:
  explicit BudgetChecker(std::span<const NamedResults> files) : files_(files) {
    for (const NamedResults& file : files) {
      names_.add(file.second);
      token_sizes_.add(file.second);
    }
  }

  GateReport check(std::span<const BudgetRow> rows) {
    report_ = {.command = "headroom compare --budget",
               .columns = {"limit", "measured", "95% interval"},
               .fields = {{"limit"}, {"measured"}, {"measured_low", "measured_high"}},
               .lines = {},
               .notes = {},
               .summary = {}};
    for (const BudgetRow& row : rows) check_row(row);
    std::vector<std::string> counts;
    for (const char* verdict : {"PASS", "MISSED", "INCONCLUSIVE", kNotMeasured})
      if (const auto n = std::ranges::count(report_.lines, verdict, &GateLine::verdict); n > 0)
        counts.push_back(fmt::format("{} {}", n, verdict));
    report_.summary = fmt::format("{}: {}", format_count(std::ssize(rows), "row"), fmt::join(counts, ", "));
    return std::move(report_);
  }

 private:
  static constexpr const char* kNotMeasured = "NOT MEASURED";

  void check_row(const BudgetRow& row) {
    std::vector<std::pair<const Result*, const NamedResults*>> found;
    for (const NamedResults& file : files_)
      for (const Result& result : file.second.results)
        if (row.selector.matches(result, token_sizes_)) found.emplace_back(&result, &file);
    const auto is_measured = [&](Quantity quantity) {
      return std::ranges::any_of(
          found, [&](const auto& one) { return !figures_of(*one.first, quantity, row.series).empty(); });
    };
    std::set<Quantity> measured;
    for (const auto& [quantity, limit] : row.limits.of)
      if (is_measured(quantity)) measured.insert(quantity);
    for (const auto& [result, file] : found) check_result(row, *result, *file, measured);
    if (!found.empty()) return;
    for (const auto& [quantity, limit] : row.limits.of)
      add_missing(row, row.name, info_of(quantity).words, limit_text(quantity, limit), "no result fits the row");
    if (row.limits.throughput)
      add_missing(row, row.name, "throughput", rate_text(*row.limits.throughput), "no result fits the row");
  }

  /// A result without a quantity is left out if another of the row has it (`measured`): a baseline has no PSNR against
  /// itself. One that needed too much memory is not.
  void check_result(const BudgetRow& row, const Result& result, const NamedResults& file,
                    const std::set<Quantity>& measured) {
    const std::string benchmark = names_.of(file.second.machine, result);
    std::string name = benchmark == row.name ? row.name : fmt::format("{}: {}", row.name, benchmark);
    if (files_.size() > 1) name += fmt::format(" in {}", file.first);
    for (const auto& [quantity, limit] : row.limits.of) {
      const std::vector<Figure> figures = figures_of(result, quantity, row.series);
      const std::string text = limit_text(quantity, limit);
      if (figures.empty() && (is_out_of_memory(result) || !measured.contains(quantity)))
        add_missing(
            row, name, info_of(quantity).words, text,
            is_out_of_memory(result) ? "it needs more memory than the device has" : "the result does not have it");
      const auto format = [shown = quantity](double value) { return format_quantity(shown, value); };
      for (const Figure& figure : figures)
        add({name, std::string(info_of(quantity).words), text, limit, info_of(quantity).is_difference, format,
             std::string(unit_of(quantity))},
            figure);
    }
    if (!row.limits.throughput) return;
    const std::string text = rate_text(*row.limits.throughput);
    if (const auto figure = throughput_of(result, row.series))
      add({name, "throughput", text, *row.limits.throughput, true, number_rate, "1/s"}, *figure);
    else
      add_missing(row, name, "throughput", text, "the result does not have it");
  }

  /// A limit of a row on one quantity of one result.
  struct Held {
    std::string name, quantity, limit_text;
    double limit;
    bool is_least;  ///< lower limit; otherwise an upper limit
    std::function<std::string(double)> format;
    std::string unit;  ///< of the numbers in CSV
  };

  void add(const Held& held, const Figure& figure) {
    const Interval interval = figure.interval.value_or(Interval{figure.value, figure.value});
    const double worst = held.is_least ? interval.low : interval.high,
                 best = held.is_least ? interval.high : interval.low;
    const auto keeps = [&](double value) { return held.is_least ? value >= held.limit : value <= held.limit; };
    GateLine line{
        .name = held.name,
        .quantity = held.quantity,
        .cells = {number_cell(held.limit, held.limit_text), number_cell(figure.value, held.format(figure.value)),
                  figure.interval ? Cell(fmt::format("{} to {}", held.format(interval.low), held.format(interval.high)),
                                         {exact_number(interval.low), exact_number(interval.high)})
                                  : no_value()},
        .verdict = "PASS",
        .why = figure.interval ? fmt::format("{} at worst", held.format(worst)) : held.format(figure.value),
        .outcome = GateOutcome::kPassed,
        .unit = held.unit};
    if (!figure.fault.empty()) {
      line.verdict = "MISSED";
      line.why = figure.fault;
      line.outcome = GateOutcome::kFailed;
    } else if (!figure.obstacle.empty()) {
      line.verdict = "INCONCLUSIVE";
      line.why = figure.obstacle;
      line.outcome = GateOutcome::kUndecided;
    } else if (!keeps(best)) {
      line.verdict = "MISSED";
      line.why = figure.interval ? fmt::format("{} at best", held.format(best)) : held.format(figure.value);
      line.outcome = GateOutcome::kFailed;
    } else if (!keeps(worst)) {
      line.verdict = "INCONCLUSIVE";
      line.why = fmt::format("{} is possible", held.format(worst));
      line.outcome = GateOutcome::kUndecided;
    }
    line.why += figure.note;
    report_.lines.push_back(std::move(line));
  }

  void add_missing(const BudgetRow& row, std::string name, std::string_view quantity, std::string limit,
                   std::string why) {
    report_.lines.push_back({.name = std::move(name),
                             .quantity = std::string(quantity),
                             .cells = {no_value(std::move(limit)), no_value(), no_value()},
                             .verdict = kNotMeasured,
                             .why = std::move(why),
                             .outcome = row.required ? GateOutcome::kFailed : GateOutcome::kLeftOut});
  }

  static std::string number_rate(double value) { return fmt::format("{}/s", format_significant(value)); }
  static std::string rate_text(double value) { return fmt::format("at least {}", number_rate(value)); }
  static std::string limit_text(Quantity quantity, double limit) {
    return fmt::format("at {} {}", info_of(quantity).is_difference ? "least" : "most",
                       format_quantity(quantity, limit));
  }

  std::span<const NamedResults> files_;
  BenchmarkNames names_;
  TokenSizes token_sizes_;
  GateReport report_;
};

}  // namespace

bool BudgetSelector::matches(const Result& result, TokenSizes& token_sizes) const {
  const Configuration& configuration = result.configuration;
  const auto is_pixels = [&](const std::optional<std::int64_t>& wanted, const char* pixels, const char* tokens) {
    return !wanted || pixels_of(result, pixels, tokens, token_sizes) == wanted;
  };
  return fits_pattern(model, result.subject.name) && fits_opt(opt, result) &&
         fits_pattern(device, configuration.device) &&
         (!gpu || (configuration.gpu && fits_pattern(gpu, configuration.gpu->name))) &&
         (source ? fits_pattern(source, result.source.name) : result.source.name == Source{}.name) &&
         is_pixels(width, "width", "token_columns") && is_pixels(height, "height", "token_rows") &&
         (!batch || batch_of(result) == *batch) && has_members(result.subject.request, request);
}

GateReport check_budget(std::span<const BudgetRow> rows, std::span<const NamedResults> files) {
  return BudgetChecker(files).check(rows);
}

}  // namespace headroom
