#include "report/advice/decision_html.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "base/files/file.hpp"
#include "base/text/format.hpp"
#include "report/advice/advice_command.hpp"
#include "report/plots/option.hpp"
#include "report/plots/time_shares.hpp"
#include "report/render/html.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

std::string interval_text(const std::optional<Interval>& interval, std::string (*label)(double),
                          const std::string& why_none) {
  if (!interval) return why_none;
  return fmt::format("95% interval {} to {}", label(interval->low), label(interval->high));
}

std::string factor_text(const std::optional<Estimate>& factor) {
  if (!factor) return "not known";
  if (!factor->interval) return label_factor(factor->value);
  return fmt::format("{} ({} to {})", label_factor(factor->value), label_factor(factor->interval->low),
                     label_factor(factor->interval->high));
}

/// The switches that are on (presets by name), and the precision if it distinguishes the measurement. Declined
/// switches are in the charts.
std::string name_of(const Measurement& m) {
  return m.precision ? fmt::format("{} ({})", m.label, *m.precision) : m.label;
}

/// Time of one unit of work, which is the same throughout a view: "260 ms an image".
std::string time_text(const Candidate& c) {
  const std::string& unit = c.measurement->time().unit;
  const bool begins_with_vowel = std::string_view("aeiou").find(unit.front()) != std::string_view::npos;
  return fmt::format("{} {} {}", label_ms(c.measurement->time().median_ms), begins_with_vowel ? "an" : "a", unit);
}

std::string_view noun_of(const Candidate& c) {
  const std::string& unit = c.measurement->time().unit;
  return unit == "image" ? "images" : unit == "frame" ? "frames" : "samples";
}

std::string rate_text(const Candidate& c) {
  return fmt::format("{} {}/s", format_significant(c.per_second), noun_of(c));
}

/// Cost of a thousand, if there is a price.
std::string cost_of(const Dataset& dataset, const Candidate& c) {
  return dataset.price()->label(dataset.price()->of_thousand(1e3 / c.per_second));
}

std::string batch_text(const Candidate& c) {
  const std::optional<double> batch = batch_of(c.scenario->subject);
  return batch && *batch > 1 ? fmt::format("{} at once", *batch) : "one at once";
}

/// "on 2 GPUs" for ranks that each have their own; empty for one device. Ranks of a CPU share it.
std::string gpus_text(const Candidate& c) {
  constexpr std::string_view kRanks = "cp=";
  const Configuration& configuration = c.measurement->result->configuration;
  if (!configuration.device.starts_with("cuda")) return {};
  const auto found =
      std::ranges::find_if(configuration.applied, [&](const std::string& name) { return name.starts_with(kRanks); });
  if (found == configuration.applied.end()) return {};
  return fmt::format("on {} GPUs", found->substr(kRanks.size(), found->find(':') - kRanks.size()));
}

/// Infinite if unknown, so that any known peak is less.
double peak_of(const Candidate& c) {
  const std::optional<MemoryReport>& memory = c.measurement->result->memory;
  return memory && memory->peak_bytes ? static_cast<double>(*memory->peak_bytes)
                                      : std::numeric_limits<double>::infinity();
}

bool is_paired_difference(std::string_view metric) {
  return std::ranges::find(quality_metrics(), metric, &QualityMetric::difference) != quality_metrics().end();
}

/// Every quality record, the configuration's own first. Records of unknown metrics have only a value.
std::vector<const QualityRecord*> records_of(const Candidate& c) {
  std::vector<const QualityRecord*> records;
  for (const QualityMetric& metric : quality_metrics())
    if (const QualityRecord* record = find_quality(*c.scenario, *c.measurement, metric.name)) records.push_back(record);
  for (const QualityRecord& record : c.measurement->result->quality)
    if (find_metric(record.metric) == nullptr && !is_paired_difference(record.metric)) records.push_back(&record);
  return records;
}

std::string quality_of(const Candidate& c) {
  std::vector<std::string> parts;
  for (const QualityRecord* record : records_of(c)) parts.push_back(quality_text(*record));
  if (parts.empty()) return c.loss ? c.loss->basis : "not measured";
  return fmt::format("{}", fmt::join(parts, ", "));
}

// ---- the cards

std::string card(std::string_view name, std::string_view value, std::string_view detail) {
  return fmt::format(
      "<div class=\"card\"><dt>{}</dt><dd><span class=\"value\">{}</span><span class=\"detail\">{}</span></dd></div>\n",
      escape_html(name), escape_html(value), escape_html(detail));
}

/// The measure that decides, the limit of it, and the other measures.
std::string quality_card(const Candidate& c, double most) {
  const std::vector<const QualityRecord*> records = records_of(c);
  const std::string limit = c.loss && c.loss->worst ? "limit: " + loss_limit_text(*c.loss->worst->metric, most)
                                                    : fmt::format("limit {}% of each measure", 100 * most);
  if (!c.loss) return card("Quality", records.empty() ? "not measured" : quality_text(*records.front()), limit);
  const std::optional<MeasuredLoss>& worst = c.loss->worst;
  const std::string value = worst              ? quality_text(worst->own)
                            : !records.empty() ? quality_text(*records.front())
                                               : "as the baseline";
  std::vector<std::string> details = {c.loss->basis};
  if (c.loss->verdict == LossVerdict::kUnresolved) details.push_back("may lose more than the limit: " + c.loss->needed);
  for (const QualityRecord* record : records)
    if (const std::string text = quality_text(*record); text != value) details.push_back(text);
  details.push_back(c.loss->limit.empty() ? limit : fmt::format("{}: {}", limit, c.loss->limit));
  return card("Quality", value, fmt::format("{}", fmt::join(details, "; ")));
}

/// Why the factor over the baseline of the same run has no interval.
std::string no_factor_interval_of(const Candidate& c) {
  const std::string why = why_no_factor_interval(*c.measurement->result);
  return why.empty() ? "the baseline's times have none" : why;
}

std::string cards(const Dataset& dataset, const Candidate& c, double most) {
  const Measurement& m = *c.measurement;
  const Timing& timing = m.time();
  const std::optional<LatencyRecord>& stream = m.result->latency;
  std::string html = stream ? card("Latency of a frame", label_ms(timing.median_ms),
                                   fmt::format("p99 {}, most {}", label_ms(stream->statistics.p99_ms),
                                               label_ms(stream->statistics.max_ms)))
                            : card(fmt::format("Time per {}", timing.unit), label_ms(timing.median_ms),
                                   interval_text(timing.interval_ms, label_ms, timing.no_interval));
  if (c.on_baseline)
    html += card("Against the baseline", label_factor(c.on_baseline->value) + " as fast",
                 interval_text(c.on_baseline->interval, label_factor, "no interval: " + no_factor_interval_of(c)));
  html += quality_card(c, most);
  const std::string gpus = gpus_text(c);
  const std::string peak = gpus.empty() ? "at the peak" : "at the peak of each, " + gpus;
  if (const std::optional<MemoryReport>& memory = m.result->memory; memory && memory->peak_bytes)
    html += card("Memory", label_bytes(static_cast<double>(*memory->peak_bytes)),
                 memory->device_total_bytes
                     ? fmt::format("{}, of {}", peak, label_bytes(static_cast<double>(*memory->device_total_bytes)))
                     : peak);
  if (dataset.price() && c.per_second > 0)
    html +=
        card(fmt::format("Cost of 1,000 {}", noun_of(c)), cost_of(dataset, c),
             fmt::format("at {}{}, {}", dataset.price()->text(),
                         gpus.empty() ? "" : fmt::format(" for the machine with all GPUs, {}", gpus), rate_text(c)));
  else if (c.per_second > 0)
    html += card("Throughput", rate_text(c),
                 stream ? fmt::format("{} of {} dropped", stream->dropped, format_count(stream->came, "frame"))
                        : fmt::format("{}; --price tells the cost", batch_text(c)));
  return fmt::format("<dl class=\"cards\">\n{}</dl>\n", html);
}

// ---- images

/// The images that the ladder wrote next to the result file, as a data URL. Empty if there are none, or if they are
/// too large for a page.
std::optional<std::string> picture_of(const Measurement& m) {
  constexpr std::uintmax_t kMostBytes = 400'000;
  const fs::path name = m.result->name + ".png";
  if (name != name.filename()) return {};
  const fs::path path = fs::path(m.path).parent_path() / name;
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostBytes || error) return {};
  const std::string bytes = read_file(path);
  if (!bytes.starts_with("\x89PNG\r\n\x1a\n")) return {};
  return "data:image/png;base64," + encode_base64(bytes);
}

std::string pictures(const Measurement& baseline, const Measurement& deployed) {
  const std::optional<std::string> before = picture_of(baseline), after = picture_of(deployed);
  if (!before || !after) return {};
  const auto figure = [](const std::string& address, std::string_view name) {
    return fmt::format("<figure><img src=\"{}\" alt=\"Images of {}\"><figcaption>{}</figcaption></figure>\n", address,
                       escape_html(name), name_html(name));
  };
  return fmt::format("<div class=\"pictures\" title=\"The same prompts and seeds\">\n{}{}</div>\n",
                     figure(*before, baseline.label), figure(*after, deployed.label));
}

const Measurement* baseline_of(const Scenario& scenario) {
  const auto found =
      std::ranges::find_if(scenario.run, [](const Measurement* m) { return m->is_baseline() && m->timing; });
  return found == scenario.run.end() ? nullptr : *found;
}

// ---- advice

std::string line(std::string_view name, const std::string& html) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html);
}

/// A configuration that is faster than the recommended one, and the reason why it is not recommended.
std::string faster(const Candidate& c, const std::string& why) {
  return fmt::format("{}, {}: {}", name_html(name_of(*c.measurement)), time_text(c), why);
}

std::string advice(const Dataset& dataset, const View& view, const Decision& d) {
  std::string lines;
  const auto differs = [&](const std::optional<Candidate>& c) {
    return c && d.deploy && c->measurement != d.deploy->measurement;
  };
  if (differs(d.highest_throughput) && d.highest_throughput->per_second > d.deploy->per_second)
    lines += line("For throughput", fmt::format("{}, {}: {}", name_html(name_of(*d.highest_throughput->measurement)),
                                                batch_text(*d.highest_throughput), rate_text(*d.highest_throughput)));
  constexpr double kNotable = 0.95;  // of the memory of the deployed configuration
  if (differs(d.least_memory) && peak_of(*d.least_memory) < kNotable * peak_of(*d.deploy))
    lines += line("For least memory", fmt::format("{}, {}: {}, {}", name_html(name_of(*d.least_memory->measurement)),
                                                  batch_text(*d.least_memory), label_bytes(peak_of(*d.least_memory)),
                                                  time_text(*d.least_memory)));
  const std::string_view faster_or_not = d.deploy ? "Faster, " : "Measured, ";
  if (d.faster_beyond)
    lines += line(fmt::format("{}beyond the limit", faster_or_not),
                  faster(*d.faster_beyond, fmt::format("{}; allowed {}", escape_html(d.faster_beyond->loss->basis),
                                                       escape_html(d.faster_beyond->loss->limit))));
  if (d.faster_unresolved)
    lines += line(
        fmt::format("{}quality not resolved", faster_or_not),
        faster(*d.faster_unresolved, fmt::format("{}; allowed {}: {}", escape_html(d.faster_unresolved->loss->basis),
                                                 escape_html(d.faster_unresolved->loss->limit),
                                                 escape_html(d.faster_unresolved->loss->needed))));
  if (d.faster_unknown)
    lines += line(fmt::format("{}quality not measured", faster_or_not),
                  faster(*d.faster_unknown, how_to_measure_quality(dataset, *d.faster_unknown)));
  if (const Candidate* shown = d.shown()) {
    const std::string where = where_time_goes(dataset, view, *shown->measurement);
    lines += line("Where its time goes", where.empty() ? how_to_profile(*shown) : name_html(where));
  }
  if (!d.overrun.empty())
    lines += line("Too slow for its frames, not considered", name_html(fmt::format("{}", fmt::join(d.overrun, ", "))));
  if (!d.unsettled.empty())
    lines += line("Unsettled, not considered", name_html(fmt::format("{}", fmt::join(d.unsettled, ", "))));
  return lines.empty() ? "" : fmt::format("<dl class=\"advice\">\n{}</dl>\n", lines);
}

std::string adoption(const Decision& decision) {
  if (decision.adoption.size() < 2) return {};
  std::string rows;
  for (const Adoption& one : decision.adoption)
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        name_html(fmt::format("{}", fmt::join(one.switches, " + "))), one.adopt ? "adopt" : "leave out",
                        escape_html(one.reason), factor_text(one.alone), factor_text(one.on_previous));
  return fmt::format(
      "<details class=\"adoption\"><summary>In what order to adopt the switches</summary>\n{}</details>\n",
      scrolled_table("Order of adoption",
                     "<th scope=\"col\">switch</th><th scope=\"col\">verdict</th><th scope=\"col\">because</th><th "
                     "scope=\"col\">alone, times as fast</th><th scope=\"col\">on top of those above</th>",
                     rows));
}

/// The request in full: "flux-dev, 512x512, 1 image at once, 10 steps (32x32 image tokens, 512 text tokens)".
std::string work_text(const Scenario& scenario) {
  const std::string details = describe_details(scenario.subject);
  return details.empty() ? scenario.work : fmt::format("{} ({})", scenario.work, details);
}

/// What the recommended configuration may lose, in the measure that decides.
std::string allowed_text(const Candidate& c, double most) {
  if (!c.loss->worst) return "that loses no quality";
  return escape_html("with " + loss_limit_text(*c.loss->worst->metric, most));
}

/// A sentence on what makes a recommendation uncertain, or nothing.
std::string doubt_text(const Decision& d) {
  return d.doubt.empty() ? "" : fmt::format(" It is not certain that it is the fastest: {}.", escape_html(d.doubt));
}

/// The configuration of the headline, and how certain it is.
std::pair<std::string, std::string> headline(const View& view, const Decision& d, double most) {
  if (!view.program.empty())
    return {fmt::format("Benchmarks of {}", escape_html(view.program)),
            "Times as the file has them; it says nothing of quality, so nothing is recommended."};
  if (view.is_of_kernels)
    return {"Kernels (no recommendation)", "The charts show what they reach of the machine's own rates."};
  const Candidate* const shown = d.shown();
  if (shown == nullptr)
    return {"No recommendation",
            !d.overrun.empty()
                ? "No settled configuration takes frames as fast as they come: times are those of a queue that grows."
            : d.unsettled.empty()
                ? "No configuration of Headroom was timed here."
                : "No configuration of Headroom has a settled time here: measure again on a quiet machine."};
  const std::string name = name_html(name_of(*shown->measurement)), gpus = gpus_text(*shown);
  const std::string work = escape_html(work_text(*shown->scenario) + (gpus.empty() ? "" : ", " + gpus));
  if (d.deploy)
    return {"Deploy " + name, fmt::format("The fastest {} for {}; measured {}.{}", allowed_text(*shown, most), work,
                                          escape_html(day_of(shown->measurement->file->created)), doubt_text(d))};
  const std::string exact = fmt::format("Exact switches lose nothing: time them with {}.", how_to_time_exact(*shown));
  if (!shown->loss) return {"Quality not measured", fmt::format("The fastest for {} is {}. {}", work, name, exact)};
  return {"Deploy <bdi>lossless</bdi>, which was not timed here",
          fmt::format("{0} for {1} {2} the limit, {3}: {4}. {5} The figures below are of {0}.", name, work,
                      shown->loss->verdict == LossVerdict::kBeyond ? "is beyond" : "may be beyond",
                      escape_html(loss_limit_text(*shown->loss->worst->metric, most)), escape_html(shown->loss->basis),
                      exact)};
}

}  // namespace

std::string scrolled_table(std::string_view label, std::string_view head, std::string_view rows) {
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table "
      "class=\"plain\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
      label, head, rows);
}

std::string decision_html(const Dataset& dataset, const View& view, const Decision& d, double max_quality_loss) {
  const auto [title, reason] = headline(view, d, max_quality_loss);
  std::string html = fmt::format("<h2>{}</h2>\n<p class=\"subtitle\">{}</p>\n", title, reason);
  if (const Candidate* shown = d.shown()) {
    html += cards(dataset, *shown, max_quality_loss);
    if (const Measurement* baseline = baseline_of(*shown->scenario)) html += pictures(*baseline, *shown->measurement);
  }
  return html + advice(dataset, view, d) + adoption(d);
}

std::string decision_row(const Dataset& dataset, const View& view, std::size_t number, const Decision& d) {
  std::string cells;
  const auto cell_of_html = [&](std::string_view html) { cells += fmt::format("<td>{}</td>", html); };
  const auto cell = [&](std::string_view text) { cell_of_html(escape_html(text)); };
  const Candidate* const shown = d.shown();
  const auto time = [](const Candidate& c) {
    return fmt::format("{} per {}", label_ms(c.measurement->time().median_ms), c.measurement->time().unit);
  };
  if (d.deploy) {
    cell_of_html(name_html(name_of(*shown->measurement)));
    cell(time(*shown));
    cell(shown->measurement->is_baseline() ? "baseline"
         : shown->on_baseline              ? label_factor(shown->on_baseline->value)
                                           : "");
    cell(quality_of(*shown));
    if (dataset.price()) cell(cost_of(dataset, *shown));
  } else {
    cell(view.is_of_kernels ? "(no recommendation)"
         : shown == nullptr ? (!d.overrun.empty()    ? "too slow for its frames"
                               : d.unsettled.empty() ? "not timed"
                                                     : "unsettled")
         : shown->loss      ? "lossless, not timed"
                            : "quality not measured");
    for (int i = 0; i < 2; ++i) cell("");
    cell(shown == nullptr ? "" : fmt::format("{}: {}", name_of(*shown->measurement), quality_of(*shown)));
    if (dataset.price()) cell("");
  }
  return fmt::format("<tr><th scope=\"row\"><a href=\"#scenario-{0}\">{0} {1}</a></th>{2}</tr>\n", number,
                     escape_html(view.title), cells);
}

}  // namespace headroom
