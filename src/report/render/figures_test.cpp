#include "report/render/figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ranges>
#include <set>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "media/read_image.hpp"
#include "report/charts/charts.hpp"
#include "report/render/html.hpp"
#include "report/render/rasterizer.hpp"
#include "report/render/renderer.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

Dataset figures_dataset() { return test::make_dataset({test::make_file(test::ladder_results()), test::kernel_file()}); }

/// The files that write_figures() leaves in a folder, by name.
std::map<std::string, std::string> files_written(std::span<const Chart> charts, const std::set<ChartFormat>& formats,
                                                 const FigureStyle& style, std::size_t threads) {
  const TempFolder folder;
  write_figures(charts, folder.path(), formats, style, {}, threads);
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
    files[entry.path().filename().string()] = read_file(entry.path());
  return files;
}

FigureStyle of_width(const char* width) { return {.width = FigureWidth::parse(width)}; }

TEST(WriteFigures, AreTheSameWhateverTheThreadsAndTheOrder) {
  const Dataset dataset = figures_dataset();
  std::vector<Chart> charts = draw_charts(dataset).charts;
  const std::set<ChartFormat> all(chart_formats().begin(), chart_formats().end());
  const auto one = files_written(charts, all, {}, 1);
  EXPECT_EQ(one.size(), 4 * charts.size());
  std::ranges::reverse(charts);
  const auto several = files_written(charts, all, {}, 3);
  ASSERT_EQ(several.size(), one.size());
  for (const auto& [name, bytes] : one) EXPECT_TRUE(several.at(name) == bytes) << name;
}

TEST(WriteFigures, PngsHaveInkAndTheSizeAskedFor) {
  const TempFolder folder;
  const Dataset dataset = figures_dataset();
  const std::vector<Chart> charts = draw_charts(dataset).charts;
  const std::pair<FigureStyle, double> kWidths[] = {
      {{}, 2 * 960}, {of_width("8.5cm"), 1004}, {of_width("500px"), 500}, {of_width("2in"), 600}};
  for (const auto& [style, pixels] : kWidths) {
    write_figures(charts, folder.path(), {ChartFormat::kPng}, style);
    for (const Chart& chart : charts) {
      const Image image = read_image(folder.path() / (chart.file + ".png"));
      EXPECT_NEAR(image.width, pixels, 1) << chart.file;
      std::set<std::uint32_t> colors;
      for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3)
        colors.insert(image.pixels[i] << 16U | image.pixels[i + 1] << 8U | image.pixels[i + 2]);
      EXPECT_GT(colors.size(), 20U) << chart.file;  // text is antialiased
    }
  }
}

TEST(WriteFigures, SaysWhichFileCannotBeWritten) {
  const TempFolder folder;
  const Dataset dataset = figures_dataset();
  const std::vector<Chart> charts = draw_charts(dataset).charts;
  EXPECT_THAT(error_of([&] { write_figures(charts, folder.path() / "none", {ChartFormat::kHtml}, {}); }),
              HasSubstr("none"));
}

TEST(Figures, HaveTheWidthThatWasAskedFor) {
  const Dataset dataset = figures_dataset();
  const Chart chart = draw_charts(dataset).charts.front();
  ChartRenderer renderer;
  EXPECT_THAT(renderer.to_svg(chart), HasSubstr("width=\"960\""));
  const std::string narrow = renderer.to_svg(chart, of_width("8.5cm"));
  EXPECT_THAT(narrow, HasSubstr("width=\"8.5cm\""));
  EXPECT_THAT(narrow, HasSubstr("viewBox=\"0 0 428 "));
  // Laid out narrow, not shrunk: in 428 units a text is still 12 or more.
  EXPECT_EQ(size_of_svg(narrow).width, 428);
  EXPECT_NEAR(layout_of(chart, of_width("8.5cm")).scale, 0.75, 0.01);
  EXPECT_EQ(layout_of(chart, of_width("50cm")).width, 960);
  EXPECT_NEAR(layout_of(chart, of_width("50cm")).scale, 50 / 2.54 * 96 / 960, 1e-9);
}

TEST(Figures, LeaveOutTitlesAndNotes) {
  const Dataset dataset = figures_dataset();
  const Chart chart = draw_charts(dataset).charts.front();
  ASSERT_FALSE(chart.notes.empty());
  ChartRenderer renderer;
  const auto texts = [](const std::string& svg) { return svg.substr(svg.find("</title>")); };
  const std::string whole = texts(renderer.to_svg(chart));
  const std::string title = escape_html(chart.title), note = escape_html(chart.notes.front()).substr(0, 20);
  EXPECT_THAT(whole, HasSubstr(title));
  EXPECT_THAT(whole, HasSubstr(note));
  const std::string untitled = texts(renderer.to_svg(chart, {.titles = false}));
  EXPECT_THAT(untitled, Not(HasSubstr(title)));
  EXPECT_THAT(untitled, HasSubstr(note));
  const std::string bare = renderer.to_svg(chart, {.titles = false, .notes = false});
  EXPECT_THAT(texts(bare), Not(HasSubstr(note)));
  EXPECT_LT(size_of_svg(bare).height, size_of_svg(renderer.to_svg(chart)).height);
}

TEST(Figures, PdfsAreOfTheSizeAskedForAndHaveNoDate) {
  const std::string svg =
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="96" height="48" viewBox="0 0 96 48"><text x="5" y="20">a text</text></svg>)";
  const std::string pdf = svg_to_pdf(svg, 96, 48, 2, "a title");
  EXPECT_TRUE(pdf.starts_with("%PDF-"));
  EXPECT_THAT(pdf, HasSubstr("/MediaBox [ 0 0 144 72 ]"));
  EXPECT_THAT(pdf, HasSubstr("a title"));
  EXPECT_THAT(pdf, Not(HasSubstr("CreationDate")));
  EXPECT_EQ(svg_to_pdf(svg, 96, 48, 2, "a title"), pdf);
  EXPECT_THAT(error_of([] { (void)svg_to_pdf("<svg", 10, 10, 1, ""); }), HasSubstr("a chart's SVG cannot be drawn"));
}

TEST(FigureWidth, ReadsCentimetersMillimetersInchesAndPixels) {
  EXPECT_NEAR(FigureWidth::parse("8.5cm").pixels(), 321.26, 0.01);
  EXPECT_NEAR(FigureWidth::parse("85mm").pixels(), 321.26, 0.01);
  EXPECT_NEAR(FigureWidth::parse("3.25in").pixels(), 312, 1e-9);
  EXPECT_NEAR(FigureWidth::parse("640px").pixels(), 640, 1e-9);
  for (const char* wrong :
       {"", "8.5", "cm", "8.5 cm", "8.5pt", "-3cm", "1cm", "101cm", "nancm", "infcm", "1e9cm", "8,5cm"})
    EXPECT_THAT(error_of([&] { (void)FigureWidth::parse(wrong); }), HasSubstr("such as 8.5cm")) << wrong;
}

}  // namespace
}  // namespace headroom
