// Every chart of the committed results is legible: no text overlaps another, leaves the picture, or is shared by
// two names.

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "report/charts/charts.hpp"
#include "report/render/renderer.hpp"
#include "report/render/svg_text_boxes.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

/// Names that occur twice on an axis.
std::vector<std::string> equal_names(const Chart& chart) {
  std::vector<std::string> equal;
  for (const char* axis : {"xAxis", "yAxis"}) {
    if (!chart.option.contains(axis) || !chart.option[axis].contains("data")) continue;
    std::set<json> seen;
    for (const json& name : chart.option[axis]["data"])
      if (!seen.insert(name).second) equal.push_back(fmt::format("'{}' occurs twice", name.dump()));
  }
  return equal;
}

/// Legibility faults of one chart.
std::vector<std::string> faults_of(ChartRenderer& renderer, const Chart& chart, const FigureStyle& style = {}) {
  const std::string svg = renderer.to_svg(chart, style);
  const SvgSize size = size_of_svg(svg);
  std::vector<std::string> faults = test::text_faults(svg, size.width, size.height);
  for (std::string& name : equal_names(chart)) faults.push_back(std::move(name));
  for (std::string& fault : faults) fault = fmt::format("{}, {} wide: {}", chart.file, size.width, fault);
  return faults;
}

/// The longest name on an axis or in the legend.
std::size_t longest_name(const Chart& chart) {
  std::size_t longest = 0;
  for (const char* part : {"xAxis", "yAxis", "legend"})
    if (chart.option.contains(part) && chart.option[part].contains("data"))
      for (const json& name : chart.option[part]["data"]) longest = std::max(longest, name.dump().size());
  return longest;
}

/// The two charts of each kind with the longest names: the hardest to fit on a phone.
std::vector<Chart> hardest_of(std::vector<Chart> charts) {
  std::ranges::stable_sort(charts, std::ranges::greater{}, longest_name);
  std::map<std::string, int> seen;
  std::erase_if(charts, [&](const Chart& chart) { return ++seen[chart.kind] > 2; });
  return charts;
}

std::string in_lines(const std::vector<std::string>& faults) { return fmt::format("{}", fmt::join(faults, "\n")); }

Dataset committed(const char* folder) {
  const std::filesystem::path path = source_dir(kSourceDir) / "bench/results" / folder;
  return Dataset::read({&path, 1});
}

class ChartTexts : public testing::TestWithParam<const char*> {};

TEST_P(ChartTexts, CanBeReadInPicturesAndOnAPhone) {
  const Dataset dataset = committed(GetParam());
  const std::vector<Chart> charts = draw_charts(dataset).charts;
  ChartRenderer renderer;
  std::vector<std::string> faults;
  const auto add = [&](std::vector<std::string> of_one) { std::ranges::move(of_one, std::back_inserter(faults)); };
  for (const Chart& chart : charts) add(faults_of(renderer, chart));
  for (Chart& chart : hardest_of(charts)) {
    for (const char* width : {"7.1cm", "8.5cm"}) add(faults_of(renderer, chart, {.width = FigureWidth::parse(width)}));
    chart.width = 390;
    chart.title = chart.subtitle = "";  // a page sets these and the notes
    chart.notes.clear();
    add(faults_of(renderer, chart));
  }
  EXPECT_FALSE(charts.empty());
  EXPECT_THAT(faults, IsEmpty()) << in_lines(faults);
}

INSTANTIATE_TEST_SUITE_P(Committed, ChartTexts, testing::Values("cpu", "h100", "h200", "streams", "unets"),
                         [](const auto& given) { return std::string(given.param); });

/// A picture with two texts.
std::string picture(const std::string& first, const std::string& second) {
  return fmt::format(
      "<svg><g transform=\"translate(10,10)\"><text style=\"font-size:12px\" x=\"0\" y=\"20\">{}</text>"
      "<text style=\"font-size:12px\" {}</text></g></svg>",
      first, second);
}

TEST(TextFaults, AreSeen) {
  EXPECT_THAT(test::text_faults(picture("one", "x=\"0\" y=\"40\">two"), 100, 100), IsEmpty());
  EXPECT_THAT(test::text_faults(picture("one", "x=\"10\" y=\"22\">two"), 100, 100),
              ElementsAre("'one' and 'two' overlap"));
  EXPECT_THAT(test::text_faults(picture("one", "x=\"70\" y=\"40\">a long text"), 100, 100),
              ElementsAre("'a long text' is cut by the edge"));
  EXPECT_THAT(test::text_faults(picture("one", "text-anchor=\"middle\" x=\"0\" y=\"40\">a long text"), 100, 100),
              ElementsAre("'a long text' is cut by the edge"));
  EXPECT_THAT(test::text_faults(picture("a &amp; b…", "x=\"0\" y=\"40\">a &amp; b…"), 200, 100),
              ElementsAre("'a & b…' is shared by two"));
  EXPECT_THAT(test::text_faults(picture("one", "transform=\"matrix(0.866,-0.5,0.5,0.866,20,70)\">turned"), 100, 100),
              IsEmpty());
}

}  // namespace
}  // namespace headroom
