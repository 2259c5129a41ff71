#include "report/dashboard.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text/format.hpp"
#include "report/advice/decision_html.hpp"
#include "report/dashboard_table.hpp"
#include "report/plots/option.hpp"
#include "report/render/html.hpp"

namespace headroom {
namespace {

// ---- one scenario at a time

std::string header(const Dataset& dataset, const std::vector<View>& views) {
  std::set<std::string> dates;
  for (const auto& [path, file] : dataset.files())
    if (!file.created.empty()) dates.insert(day_of(file.created));
  std::string when = dates.empty() ? "at an unknown time" : *dates.begin();
  if (dates.size() > 1) when += " to " + *dates.rbegin();
  std::string options;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (i == 0 || views[i].hardware != views[i - 1].hardware)
      options +=
          fmt::format("{}<optgroup label=\"{}\">\n", i == 0 ? "" : "</optgroup>\n", escape_html(views[i].hardware));
    options += fmt::format("<option value=\"{0}\">{0} {1}</option>\n", i + 1, escape_html(views[i].title));
  }
  options += "</optgroup>\n";
  return fmt::format(
      "<header>\n<h1>Performance</h1>\n<p class=\"chooser\"><label for=\"scenario\">Scenario</label> <select "
      "id=\"scenario\">\n{}</select> <button type=\"button\" id=\"previous\" aria-label=\"Previous "
      "scenario\">‹</button> "
      "<button type=\"button\" id=\"next\" aria-label=\"Next scenario\">›</button></p>\n<p class=\"subtitle\">{} of "
      "{}, "
      "measured {}. Keys: the number of a scenario, or ← and →; with Shift, its charts.</p>\n</header>\n",
      options, format_count(std::ssize(dataset.measurements()), "result"), format_count(std::ssize(views), "scenario"),
      escape_html(when));
}

/// The distinguishing names of charts of a kind: their titles, with works added if needed, less common prefixes and
/// suffixes.
std::vector<std::string> names_in_kind(const std::vector<const Chart*>& charts, const View& view) {
  std::set<std::string> titles;
  for (const Chart* chart : charts) titles.insert(chart->title);
  std::vector<std::string> names;
  for (const Chart* chart : charts) {
    std::string work = chart->subtitle;
    const std::string hardware = "; " + view.hardware;
    if (work.ends_with(hardware)) work.resize(work.size() - hardware.size());
    names.push_back(titles.size() == charts.size() ? chart->title : fmt::format("{}; {}", chart->title, work));
  }
  return without_what_all_share(std::move(names));
}

/// A button for each kind of chart, with a list if there are several charts of the kind.
std::string chart_index(const View& view, std::size_t number, const ChartSet& set, const Decision& decision) {
  std::vector<std::pair<std::string, std::vector<const Chart*>>> kinds;
  for (const Chart& chart : set.charts) {
    const auto is_of_view = [&](const Scenario* of) {
      return std::ranges::find(view.scenarios, of) != view.scenarios.end();
    };
    if (std::ranges::none_of(chart.of, is_of_view)) continue;
    if (kinds.empty() || kinds.back().first != chart.kind) kinds.push_back({chart.kind, {}});
    kinds.back().second.push_back(&chart);
  }
  const auto is_of_deployed = [&](const Chart* chart) {
    return decision.deploy && std::ranges::find(chart->of, decision.deploy->scenario) != chart->of.end();
  };
  std::string items;
  for (auto& [kind, charts] : kinds) {
    std::ranges::stable_partition(charts, is_of_deployed);
    std::string name = kind;
    std::ranges::replace(name, '_', ' ');
    items += fmt::format("<li><button type=\"button\" data-chart=\"{}\" title=\"{}\">{}{}</button>",
                         escape_html(charts.front()->file), escape_html(charts.front()->title), name,
                         charts.size() == 1 ? "" : fmt::format(" <span class=\"count\">{}</span>", charts.size()));
    if (charts.size() > 1) {
      items += fmt::format("<select aria-label=\"Which {}\" hidden>", name);
      const std::vector<std::string> names = names_in_kind(charts, view);
      for (std::size_t i = 0; i < charts.size(); ++i)
        items += fmt::format("<option value=\"{}\">{}</option>", escape_html(charts[i]->file), escape_html(names[i]));
      items += "</select>";
    }
    items += "</li>\n";
  }
  if (items.empty()) items = "<li>None can be drawn from these results.</li>\n";
  return fmt::format("<ul class=\"kinds\" data-view=\"{}\" aria-label=\"Charts\" hidden>\n{}</ul>\n", number, items);
}

std::string all_scenarios(std::size_t count, const std::string& rows, bool has_price) {
  return fmt::format("<section id=\"all\">\n<h2>{}, and what to deploy in each</h2>\n",
                     format_count(static_cast<std::int64_t>(count), "scenario")) +
         scrolled_table("All scenarios",
                        fmt::format("<th scope=\"col\">scenario</th><th scope=\"col\">deploy</th><th "
                                    "scope=\"col\">time</th><th scope=\"col\">on baseline</th><th "
                                    "scope=\"col\">quality</th>{}",
                                    has_price ? "<th scope=\"col\">cost of 1,000</th>" : ""),
                        rows) +
         "</section>\n";
}

// ---- shared by all scenarios

std::string machines(const Dataset& dataset) {
  std::string html = "<details id=\"machine\">\n<summary>Machines</summary>\n";
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
    if (machine.logical_cores > 0)
      row("cores", fmt::format("{} allowed of {}", machine.allowed_cores, machine.logical_cores));
    if (machine.memory_bytes > 0) row("memory", label_bytes(static_cast<double>(machine.memory_bytes)));
    for (const GpuInfo& gpu : machine.gpus)
      row("GPU", gpu.driver ? fmt::format("{}, driver {}", gpu.name, *gpu.driver) : gpu.name);
    if (!machine.os.empty()) row("system", fmt::format("{}, {}", machine.os, machine.kernel));
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
  return html + "</details>\n";
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

}  // namespace

std::string make_dashboard(const Dataset& dataset, const ChartSet& set, const ReportOptions& options) {
  const std::vector<View> views = views_of(dataset);
  std::string decisions, indexes, rows;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Decision decision = decide(dataset, views[i], options.max_quality_loss);
    decisions += fmt::format("<section class=\"decision\" data-view=\"{}\" hidden>\n{}</section>\n", i + 1,
                             decision_html(dataset, views[i], decision, options.max_quality_loss));
    indexes += chart_index(views[i], i + 1, set, decision);
    if (i == 0 || views[i].hardware != views[i - 1].hardware)
      rows += fmt::format("<tr class=\"machine\"><th scope=\"colgroup\" colspan=\"{}\">{}</th></tr>\n",
                          dataset.price() ? 6 : 5, escape_html(views[i].hardware));
    rows += decision_row(dataset, views[i], i + 1, decision);
  }
  std::string figures;
  for (const Chart& chart : set.charts) figures += chart_figure(chart, 3);
  const std::string body = header(dataset, views) + "<main>\n" + decisions +
                           "<section id=\"charts\">\n<h2 class=\"unseen\">Charts</h2>\n<nav aria-label=\"Charts\">\n" +
                           indexes + "</nav>\n<div id=\"figures\">\n" + figures + "</div>\n</section>\n" +
                           measurement_table(dataset, views) +
                           all_scenarios(views.size(), rows, dataset.price().has_value()) + machines(dataset) +
                           left_out_html(set.left_out) + files_left_out_html(dataset.left_out()) + "</main>";
  return make_page("Performance", body);
}

}  // namespace headroom
