#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/text/format.hpp"
#include "base/text/list.hpp"
#include "cli/commands/commands.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "cli/phase_progress.hpp"
#include "measure/results/result.hpp"
#include "report/report.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> results;
  std::string out;
  std::vector<std::string> formats = {"png", "html"};
  ReportOptions options;
  std::string price;
  std::string width;
  bool no_titles = false;
  bool no_notes = false;
  bool quiet = false;
};

/// Returns the formats of charts; those of tables are added to `tables`.
std::set<ChartFormat> parse_formats(const std::vector<std::string>& lists, std::set<TableFormat>& tables) {
  constexpr std::string_view kExpected = "expected png, html, svg, pdf, csv, md or latex, separated by commas";
  std::set<ChartFormat> formats;
  for (const std::string& list : lists)
    for (const std::string& name : split_list(list, "--format")) {
      if (const auto table = parse_table_format(name); table && *table != TableFormat::kText) {
        tables.insert(*table);
        continue;
      }
      const auto all = chart_formats();
      const auto found = std::ranges::find(all, std::string_view(name), [](ChartFormat one) { return name_of(one); });
      if (found == all.end()) fail_usage("--format '{}': {}", name, kExpected);
      formats.insert(*found);
    }
  if (formats.empty() && tables.empty()) fail_usage("--format is empty: {}", kExpected);
  return formats;
}

/// Runs `work` with a progress bar and returns its result.
template <typename Work>
auto with_progress(bool quiet, const Work& work) {
  PhaseProgress shown(quiet);
  return work([&](std::string_view phase, std::int64_t done, std::int64_t total) { shown.show(phase, done, total); });
}

/// Throws a usage Error for options of pictures if none is asked for.
void require_pictures(const ReportArguments& arguments, const std::set<ChartFormat>& formats) {
  const std::size_t pages = formats.count(ChartFormat::kHtml);
  if (formats.size() > pages) return;
  for (const auto& [option, is_given] :
       {std::pair("--width", !arguments.width.empty()), std::pair("--no-titles", arguments.no_titles),
        std::pair("--no-notes", arguments.no_notes)})
    if (is_given)
      fail_usage("{} would change nothing: it is for png, svg and pdf, and --format has none of them", option);
}

void report(const ReportArguments& arguments) {
  const Log log(arguments.quiet);
  ReportOptions options = arguments.options;
  options.formats = parse_formats(arguments.formats, options.tables);
  require_pictures(arguments, options.formats);
  std::optional<Price> price;
  if (!arguments.price.empty()) price = Price::parse(arguments.price);  // checked before anything is read
  if (!arguments.width.empty()) options.style.width = FigureWidth::parse(arguments.width);
  options.style.titles = !arguments.no_titles;
  options.style.notes = !arguments.no_notes;
  const std::vector<fs::path> paths(arguments.results.begin(), arguments.results.end());
  Dataset dataset =
      with_progress(arguments.quiet, [&](const ReportProgress& progress) { return Dataset::read(paths, progress); });
  if (price) dataset.set_price(*price);
  for (const std::string& reason : dataset.left_out()) log.info("left out: {}", reason);
  make_folder(arguments.out);
  const ReportFiles written = with_progress(arguments.quiet, [&](const ReportProgress& progress) {
    options.progress = progress;
    return write_report(dataset, arguments.out, options);
  });
  for (const LeftOut& left_out : written.left_out) log.info("{} left out: {}", left_out.file, left_out.reason);
  std::vector<std::string_view> formats;
  for (const ChartFormat format : options.formats) formats.push_back(name_of(format));
  if (!formats.empty())
    log.info("wrote {} as {} to {}", format_count(std::ssize(written.charts), "chart"), fmt::join(formats, ", "),
             arguments.out);
  if (!written.tables.empty()) log.info("wrote {} of tables", format_count(std::ssize(written.tables), "file"));
  print_out("{}\n", written.dashboard.string());
}

}  // namespace

void add_report_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "make charts and a dashboard from result files");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("RESULTS", arguments->results, "result files, or folders of result files")->required();
  command->add_option("--out", arguments->out, "folder for the charts and performance_dashboard.html")
      ->check(folder_name())
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--format", arguments->formats,
                   "formats of the charts (png, html, svg, pdf) and of tables (csv, md, latex), separated by commas")
      ->type_name("LIST")
      ->capture_default_str();
  command
      ->add_option("--max-quality-loss", arguments->options.max_quality_loss,
                   "largest quality loss of a recommended configuration, as a share of accuracy or of the output's "
                   "range, such as 1%")
      ->transform(share())
      ->type_name("SHARE")
      ->capture_default_str();
  command->add_option("--price", arguments->price, "price of the machine per hour, such as 2.50/h, to report costs")
      ->type_name("PRICE");
  command->add_option("--width", arguments->width, "width of png, svg and pdf in cm, mm, in or px, such as 8.5cm")
      ->type_name("WIDTH");
  command->add_flag("--no-titles", arguments->no_titles, "no title above a png, svg or pdf");
  command->add_flag("--no-notes", arguments->no_notes, "no notes below a png, svg or pdf");
  command->add_flag("-q,--quiet", arguments->quiet, "print no notes and no progress");
  command->add_flag_callback(
      "--schema", [] { throw CLI::CallForVersion(result_schema().dump(2), 0); },
      "print the JSON Schema of result files, and do nothing else");
  command->footer("Example: headroom report out/demo/results.json --out out/demo");
  command->callback([arguments] { report(*arguments); });
}

}  // namespace headroom
