#include "report/dashboard.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "measure/table.hpp"
#include "report/dashboard_table.hpp"
#include "report/deploy.hpp"
#include "report/html.hpp"
#include "report/ladder_view.hpp"
#include "report/option.hpp"
#include "report/quality_loss.hpp"

namespace headroom {
namespace {

std::string factor_text(const std::optional<Estimate>& factor) {
  if (!factor) return "not known";
  if (!factor->interval) return label_factor(factor->value);
  return fmt::format("{} ({} to {})", label_factor(factor->value), label_factor(factor->interval->low),
                     label_factor(factor->interval->high));
}

// ---- key figures

std::string card(std::string_view name, std::string_view value, std::string_view detail) {
  return fmt::format(
      "<div class=\"card\"><dt>{}</dt><dd><span class=\"value\">{}</span><span class=\"detail\">{}</span></dd></div>\n",
      escape_html(name), escape_html(value), escape_html(detail));
}

const RungView* fastest_of(const LadderView& ladder) {
  const RungView* best = &ladder.baseline;
  for (const RungView* rung : ladder.all())
    if (!rung->measurement->is_peer && !rung->is_unsettled() && !rung->measurement->result->same_as &&
        rung->measurement->time().median_ms < best->measurement->time().median_ms)
      best = rung;
  return best;
}

std::string throughput_of(const LadderView& ladder, const Timing& timing) {
  const double batch = timing.unit == "image" ? 1 : batch_of(ladder.scenario->subject).value_or(0);
  if (batch == 0 || !(timing.median_ms > 0)) return {};
  return label_si(batch / timing.median_ms * 1e3, "images/s");
}

std::string key_figures(const LadderView& ladder) {
  const RungView& best = *fastest_of(ladder);
  const Measurement& m = *best.measurement;
  const Timing& timing = m.time();
  std::string cards = card(fmt::format("Best time per {}", timing.unit), label_ms(timing.median_ms),
                           timing.interval_ms ? fmt::format("95% interval {} to {}", label_ms(timing.interval_ms->low),
                                                            label_ms(timing.interval_ms->high))
                                              : "no interval in the result");
  if (best.on_baseline) {
    const std::optional<Interval>& interval = best.on_baseline->interval;
    cards += card("Against the baseline", label_factor(best.on_baseline->value),
                  interval ? fmt::format("as fast; 95% interval {} to {}", label_factor(interval->low),
                                         label_factor(interval->high))
                           : "as fast; no interval in the result");
  }
  if (const std::string throughput = throughput_of(ladder, timing); !throughput.empty())
    cards += card("Throughput", throughput, "at that time");
  if (const std::optional<MemoryReport>& memory = m.result->memory; memory && memory->peak_bytes) {
    const auto peak = static_cast<double>(*memory->peak_bytes);
    std::string detail = "at the peak";
    if (memory->device_total_bytes)
      detail = fmt::format("at the peak, of {} on the device",
                           label_bytes(static_cast<double>(*memory->device_total_bytes)));
    cards += card("Memory", label_bytes(peak), detail);
  }
  if (const std::optional<QualityLoss> loss = quality_loss(m, *ladder.baseline.measurement))
    cards +=
        card("Quality lost", fmt::format("{}%", format_significant(100 * std::max(0.0, loss->value))), loss->basis);
  else
    cards += card("Quality lost", "not known", "the results say nothing of it");
  return fmt::format(
      "<section class=\"figures\">\n<h3>{}</h3>\n<p class=\"subtitle\">{}. The fastest configuration "
      "of the run of {} at revision {}: <strong>{}</strong>.</p>\n"
      "<dl class=\"cards\">\n{}</dl>\n</section>\n",
      escape_html(ladder.scenario->work), escape_html(ladder.scenario->hardware), escape_html(m.file->created),
      escape_html(m.revision()), name_html(m.label), cards);
}

// ---- what to deploy

std::string candidate_row(std::string_view purpose, const std::optional<Candidate>& candidate, const Dataset& dataset) {
  if (!candidate) return {};
  const Measurement& m = *candidate->measurement;
  const std::optional<MemoryReport>& memory = m.result->memory;
  const std::optional<double> batch = batch_of(dataset.scenario_of(m).subject);
  return fmt::format(
      "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}% ({})</td></tr>\n",
      purpose, name_html(m.label), batch ? fmt::format("{}", *batch) : "-", label_ms(candidate->request_ms),
      candidate->images_per_second > 0 ? label_si(candidate->images_per_second, "images/s") : "-",
      memory && memory->peak_bytes ? label_bytes(static_cast<double>(*memory->peak_bytes)) : "-",
      format_significant(100 * std::max(0.0, candidate->loss.value)), escape_html(candidate->loss.basis));
}

std::string recommendation_html(const Recommendation& r, const Dataset& dataset, double max_quality_loss) {
  std::string html =
      fmt::format("<h3>{}</h3>\n<p class=\"subtitle\">{}</p>\n", escape_html(r.work), escape_html(r.hardware));
  if (!r.lowest_latency) {
    html += fmt::format("<p>Nothing: no configuration is known to lose at most {}% of quality.</p>\n",
                        100 * max_quality_loss);
  } else {
    html += fmt::format(
        "<p>Of the configurations that lose at most {}% of quality:</p>\n<div class=\"scroll\" tabindex=\"0\" "
        "role=\"region\" "
        "aria-label=\"What to deploy\"><table class=\"plain\">\n<thead><tr><th "
        "scope=\"col\">for</th><th scope=\"col\">deploy</th><th scope=\"col\">images at once</th><th "
        "scope=\"col\">request</th><th scope=\"col\">throughput</th><th scope=\"col\">peak memory</th><th "
        "scope=\"col\">quality lost</th></tr></thead>\n<tbody>\n",
        100 * max_quality_loss);
    html += candidate_row("lowest latency", r.lowest_latency, dataset);
    html += candidate_row("highest throughput", r.highest_throughput, dataset);
    html += candidate_row("least memory", r.least_memory, dataset);
    html += "</tbody></table></div>\n";
  }
  if (!r.beyond_limit.empty())
    html +=
        fmt::format("<p>Beyond the limit: {}.</p>\n", name_html(fmt::format("{}", fmt::join(r.beyond_limit, ", "))));
  if (!r.unsettled.empty())
    html += fmt::format("<p>Not considered, because their times are unsettled: {}.</p>\n",
                        name_html(fmt::format("{}", fmt::join(r.unsettled, ", "))));
  if (!r.unknown.empty())
    html += fmt::format("<p>Not considered, because nobody measured their quality: {}.</p>\n",
                        name_html(fmt::format("{}", fmt::join(r.unknown, ", "))));
  return html;
}

std::string_view verdict_text(AdoptionVerdict verdict) {
  switch (verdict) {
    case AdoptionVerdict::kFaster:
      return "adopt: it is faster";
    case AdoptionVerdict::kSlower:
      return "leave out: it is slower here";
    case AdoptionVerdict::kNoDifference:
      return "no difference beyond noise";
    case AdoptionVerdict::kUnknown:
      break;
  }
  return "no interval to judge by";
}

std::string adoption_html(const LadderView& ladder) {
  std::string rows;
  for (const RungView& rung : ladder.cumulative) {
    const auto single = std::ranges::find(ladder.singles, rung.added, &RungView::added);
    const auto factor = [](const RungView& of, const std::optional<Estimate>& estimate) {
      return of.is_declined() ? "declined" : of.is_unsettled() ? "unsettled" : factor_text(estimate);
    };
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        name_html(fmt::format("{}", fmt::join(rung.added, " + "))),
                        single == ladder.singles.end() ? "not measured alone" : factor(*single, single->on_baseline),
                        factor(rung, rung.on_previous),
                        rung.is_declined()    ? "leave out: it does nothing here"
                        : rung.is_unsettled() ? "measure again: it is unsettled"
                                              : verdict_text(verdict_of(rung.on_previous)));
  }
  return fmt::format(
      "<h4>In what order to adopt the switches: {}</h4>\n<p class=\"subtitle\">In the order in which they were added "
      "up; times as fast, with "
      "95% interval.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Order of adoption\"><table "
      "class=\"plain\">\n<thead><tr><th "
      "scope=\"col\">switch</th><th scope=\"col\">alone</th><th scope=\"col\">on top of those above</th><th "
      "scope=\"col\">verdict</th></tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
      escape_html(ladder.scenario->work), rows);
}

std::string deployment(const Dataset& dataset, const std::vector<LadderView>& ladders, double max_quality_loss) {
  std::string html = "<section id=\"deploy\">\n<h2>What to deploy</h2>\n";
  const std::vector<Recommendation> all = recommend(dataset, max_quality_loss);
  for (const Recommendation& r : all) html += recommendation_html(r, dataset, max_quality_loss);
  for (const LadderView& ladder : ladders)
    if (ladder.cumulative.size() >= 2) html += adoption_html(ladder);
  if (all.empty())
    html += "<p>Nothing can be said: no model was measured both without any switch and with one, in one run.</p>\n";
  html +=
      "<p class=\"subtitle\">Quality lost is, where it was judged, the drop in accuracy below the baseline; else the "
      "relative L2 error of the "
      "output; else the RMS error of the images over their range, from PSNR; else 0 for exact switches alone.</p>\n";
  return html + "</section>\n";
}

// ---- the rest

std::string machines(const Dataset& dataset) {
  std::string html = "<section id=\"machine\">\n<h2>Machine</h2>\n";
  std::vector<std::pair<Machine, std::vector<std::string>>> known;
  for (const auto& [path, file] : dataset.files()) {
    const auto found = std::ranges::find(known, file.machine, &std::pair<Machine, std::vector<std::string>>::first);
    (found == known.end() ? *known.insert(known.end(), {file.machine, {}}) : *found).second.push_back(path);
  }
  for (const auto& [machine, paths] : known) {
    std::string rows;
    const auto row = [&](std::string_view name, std::string_view value) {
      if (!value.empty())
        rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", name, name_html(value));
    };
    row("CPU", machine.cpu);
    row("vector units", machine.cpu_isa.value_or(""));
    row("cores", fmt::format("{} allowed of {}", machine.allowed_cores, machine.logical_cores));
    row("memory", label_bytes(static_cast<double>(machine.memory_bytes)));
    for (const GpuInfo& gpu : machine.gpus)
      row("GPU", gpu.driver ? fmt::format("{}, driver {}", gpu.name, *gpu.driver) : gpu.name);
    row("system", fmt::format("{}, {}", machine.os, machine.kernel));
    if (machine.build)
      row("headroom", fmt::format("{} at {}, {}, {}", machine.build->version, machine.build->git_revision,
                                  machine.build->type, machine.build->compiler));
    std::vector<std::string> libraries;
    for (const auto& [name, version] : machine.libraries) libraries.push_back(fmt::format("{} {}", name, version));
    row("libraries", fmt::format("{}", fmt::join(libraries, ", ")));
    row("results", fmt::format("{}", fmt::join(paths, ", ")));
    html +=
        fmt::format("<div class=\"scroll\"><table class=\"plain machine\"><tbody>\n{}</tbody></table></div>\n", rows);
  }
  return html + "</section>\n";
}

std::string left_out_html(const std::vector<LeftOut>& left_out) {
  if (left_out.empty()) return {};
  std::string items;
  for (const LeftOut& one : left_out)
    items += fmt::format("<li><code>{}</code>: {}</li>\n", escape_html(one.file), escape_html(one.reason));
  return fmt::format("<details id=\"left-out\"><summary>{} left out, and why</summary>\n<ul>\n{}</ul></details>\n",
                     left_out.size() == 1 ? "1 kind of chart" : fmt::format("{} kinds of charts", left_out.size()),
                     items);
}

std::string files_left_out_html(const std::vector<std::string>& reasons) {
  if (reasons.empty()) return {};
  std::string items;
  for (const std::string& reason : reasons) items += fmt::format("<li>{}</li>\n", name_html(reason));
  return fmt::format(
      "<section id=\"files-left-out\">\n<h2>Files left out</h2>\n<p>They are not among the results above, because they "
      "cannot be read as what they should be:</p>\n<ul>\n{}</ul>\n</section>\n",
      items);
}

std::string header(const Dataset& dataset) {
  std::set<std::string> dates;
  for (const auto& [path, file] : dataset.files()) dates.insert(file.created);
  std::string when = *dates.begin();
  if (dates.size() > 1) when += " to " + *dates.rbegin();
  return fmt::format(
      "<header>\n<h1>Performance</h1>\n<p class=\"subtitle\">{} of {}, measured {}. Made by headroom.</p>\n"
      "<nav aria-label=\"Sections\"><a href=\"#key-figures\">Key figures</a> <a href=\"#charts\">Charts</a> <a "
      "href=\"#measurements\">Measurements</a> "
      "<a href=\"#machine\">Machine</a> <a href=\"#deploy\">What to deploy</a></nav>\n</header>\n",
      format_count(std::ssize(dataset.measurements()), "result"), format_count(std::ssize(dataset.scenarios()), "work"),
      escape_html(when));
}

}  // namespace

std::string make_dashboard(const Dataset& dataset, const ChartSet& set, const ReportOptions& options) {
  const std::vector<LadderView> ladders = ladders_of(dataset);
  std::string body = header(dataset) + "<main>\n<section id=\"key-figures\">\n<h2>Key figures</h2>\n";
  for (const LadderView& ladder : ladders) body += key_figures(ladder);
  if (ladders.empty()) body += "<p>None: no model was measured both without any switch and with one, in one run.</p>\n";
  body += "</section>\n<section id=\"charts\">\n<h2>Charts</h2>\n";
  for (const Chart& chart : set.charts) body += chart_figure(chart, 3);
  if (set.charts.empty()) body += "<p>None can be drawn from these results.</p>\n";
  body += left_out_html(set.left_out) + "</section>\n" + measurement_table(dataset) +
          files_left_out_html(dataset.left_out()) + machines(dataset) +
          deployment(dataset, ladders, options.max_quality_loss) + "</main>";
  return make_page("Performance", body);
}

}  // namespace headroom
