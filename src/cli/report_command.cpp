#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/format.hpp"
#include "base/list.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "cli/commands.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
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
  bool quiet = false;
};

/// Those of charts; those of tables go to `tables`.
std::set<ChartFormat> parse_formats(const std::vector<std::string>& lists, std::set<TableFormat>& tables) {
  std::set<ChartFormat> formats;
  for (const std::string& list : lists)
    for (const std::string& name : split_list(list, "--format")) {
      if (const auto table = parse_table_format(name); table && *table != TableFormat::kText) {
        tables.insert(*table);
        continue;
      }
      if (name == "png")
        formats.insert(ChartFormat::kPng);
      else if (name == "html")
        formats.insert(ChartFormat::kHtml);
      else if (name == "svg")
        formats.insert(ChartFormat::kSvg);
      else
        fail_usage("--format '{}': expected png, html, svg, csv, md or latex, separated by commas", name);
    }
  if (formats.empty() && tables.empty())
    fail_usage("--format is empty: expected png, html, svg, csv, md or latex, separated by commas");
  return formats;
}

void report(const ReportArguments& arguments) {
  const Log log(arguments.quiet);
  ReportOptions options = arguments.options;
  options.formats = parse_formats(arguments.formats, options.tables);
  std::optional<Price> price;
  if (!arguments.price.empty()) price = Price::parse(arguments.price);  // before anything is read
  Dataset dataset = Dataset::read(std::vector<fs::path>(arguments.results.begin(), arguments.results.end()));
  if (price) dataset.set_price(*price);
  for (const std::string& reason : dataset.left_out()) log.info("left out: {}", reason);
  make_folder(arguments.out);
  const ReportFiles written = write_report(dataset, arguments.out, options);
  for (const LeftOut& left_out : written.left_out) log.info("{} left out: {}", left_out.file, left_out.reason);
  log.info("wrote {} charts as {} to {}", written.charts.size(), fmt::join(arguments.formats, ", "), arguments.out);
  if (!written.tables.empty()) log.info("wrote {} of tables", format_count(std::ssize(written.tables), "file"));
  print_out("{}\n", written.dashboard.string());
}

}  // namespace

void add_report_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "charts and a dashboard from result files");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("RESULTS", arguments->results, "result files, or folders of them")->required();
  command->add_option("--out", arguments->out, "folder for the charts and performance_dashboard.html")
      ->check(folder_name())
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--format", arguments->formats,
                   "of the charts: png, html, svg; and of tables: csv, md, latex; separated by commas")
      ->capture_default_str();
  command
      ->add_option("--max-quality-loss", arguments->options.max_quality_loss,
                   "most that a recommended configuration may lose, as a fraction of accuracy or of the output's range")
      ->check(real_number(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--price", arguments->price, "what the machine costs an hour, such as 2.50/h: tells costs")
      ->type_name("PRICE");
  command->add_flag("-q,--quiet", arguments->quiet, "no notes");
  command->footer("Example: headroom report out/demo/results.json --out out/demo");
  command->callback([arguments] { report(*arguments); });
}

}  // namespace headroom
