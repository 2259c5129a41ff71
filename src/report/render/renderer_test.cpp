#include "report/render/renderer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/test_util.hpp"
#include "report/charts/charts.hpp"
#include "report/render/html.hpp"
#include "report/render/rasterizer.hpp"
#include "report/render/svg_text_boxes.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Results for every kind of chart except those that need a sweep.
Dataset rich_dataset() {
  std::vector<Result> results = test::ladder_results();
  for (std::size_t i = 0; i < results.size(); ++i) {
    test::set_quality(results[i], "accuracy", 0.9 - 0.01 * static_cast<double>(i), Interval{0.8, 0.95});
    if (i > 0) test::set_quality(results[i], "psnr_db", 60 - static_cast<double>(i));
  }
  results.push_back(test::make_peer("eager", {200, 210, 220}));
  return test::make_dataset({test::make_file(results), test::kernel_file()});
}

/// Texts that an option shows next to its items.
void collect_texts(const json& value, std::set<std::string>& texts) {
  if (value.is_object() && value.contains("text") && value["text"].is_string())
    texts.insert(value["text"].get<std::string>());
  if (value.is_structured())
    for (const json& inner : value) collect_texts(inner, texts);
}

ChartRenderer& renderer() {
  static ChartRenderer one;  // loading takes a quarter of a second
  return one;
}

TEST(ChartRenderer, LabelsOfAnAxisDiffer) {
  std::vector<double> trials;
  for (int i = 0; i < 20; ++i) trials.push_back(12.31 + 0.003 * i);  // in steps of 10 µs
  const std::vector<Result> results = {test::make_result({}, trials), test::make_result({"fuse"}, trials)};
  const Chart chart = charts::latency_distribution(test::make_dataset({test::make_file(results)})).charts.at(0);
  std::multiset<std::string> labels;
  for (const test::TextBox& box : test::text_boxes(renderer().to_svg(chart)))
    if (box.text.ends_with(" ms")) labels.insert(box.text);
  EXPECT_GE(labels.size(), 4U);
  for (const std::string& label : labels) EXPECT_EQ(labels.count(label), 1U) << label;
}

TEST(ChartRenderer, EveryTextOfAnOptionIsInTheSvgAndThePage) {
  const ChartSet set = draw_charts(rich_dataset());
  ASSERT_GE(set.charts.size(), 12U);
  for (const Chart& chart : set.charts) {
    const std::string svg = renderer().to_svg(chart), page = chart_page(chart);
    EXPECT_THAT(svg, HasSubstr(escape_html(chart.title)));
    EXPECT_THAT(page, HasSubstr(script_json(chart.option)));
    std::set<std::string> texts;
    collect_texts(chart.option["series"], texts);
    const bool may_hide = chart.option["series"].back().contains("labelLayout") || chart.kind == "roofline";
    for (const std::string& text : texts) {
      const std::string first_line = text.substr(0, text.find('\n'));
      if (may_hide) continue;
      EXPECT_THAT(svg, HasSubstr(escape_html(first_line))) << chart.file;
    }
    EXPECT_THAT(svg, Not(HasSubstr("dominant-baseline")));
    EXPECT_THAT(svg, Not(HasSubstr("NaN"))) << chart.file;
  }
}

TEST(ChartRenderer, BarsAreAsLongAsTheirValues) {
  const Dataset dataset =
      test::make_dataset({test::make_file({test::make_result({}, {100, 100}), test::make_result({"fuse"}, {50, 50})})});
  const std::string svg = renderer().to_svg(charts::speedup_comparison(dataset).charts.front());
  const TempFolder folder;
  const Image image = rasterize(svg, size_of_svg(svg).width, size_of_svg(svg).height, 1);
  const auto pixels_of = [&](int red, int green, int blue) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3)
      count += image.pixels[i] == red && image.pixels[i + 1] == green && image.pixels[i + 2] == blue ? 1 : 0;
    return static_cast<double>(count);
  };
  const double baseline = pixels_of(0x6a, 0x76, 0x86), fuse = pixels_of(0x00, 0x69, 0xa8);
  ASSERT_GT(fuse, 1000);
  EXPECT_NEAR(baseline / fuse, 2, 0.1);
}

TEST(ChartRenderer, TakesHostileNamesAndNumbers) {
  const std::vector<std::string> names = {"\"quoted\" & <b>",
                                          "</script></svg>",
                                          std::string(5000, 'x'),
                                          "\u0645\u0631\u062d\u0628\u0627 \u4e16\u754c \U0001F600",
                                          std::string("control \x01\x1f characters"),
                                          "{a}{b}{c} {name|x}"};
  std::vector<Result> results = {test::make_result({}, {1e-300, 1e-300})};
  for (std::size_t i = 0; i < names.size(); ++i) {
    results.push_back(test::make_result({names[i]}, {i % 2 == 0 ? 1e300 : 0.0}));
    test::set_memory(results.back(), 0, 0, 9'000'000'000'000'000'000);
    test::set_quality(results.back(), "psnr_db", i % 2 == 0 ? 1e300 : -1e-300);
  }
  const ChartSet set = draw_charts(test::make_dataset({test::make_file(results)}));
  ASSERT_GE(set.charts.size(), 3U);
  for (const Chart& chart : set.charts) {
    const std::string svg = renderer().to_svg(chart);
    const Image image =
        rasterize(svg, size_of_svg(svg).width, size_of_svg(svg).height, 0.5);  // throws where it is no SVG
    EXPECT_GT(image.width, 0);
  }
}

TEST(Rasterizer, NamesWhatIsWrong) {
  EXPECT_THAT(error_of([] { (void)rasterize("<svg", 10, 10, 1); }), HasSubstr("a chart's SVG cannot be drawn"));
}

TEST(Rasterizer, MeasuresTextInTheChartFont) {
  const double width = text_width("headroom", "12px sans-serif");
  EXPECT_GT(width, 40);
  EXPECT_LT(width, 80);
  EXPECT_NEAR(text_width("headroom", "24px sans-serif"), 2 * width, 1e-6);
  EXPECT_GT(text_width("headroom", "bold 12px sans-serif"), width);
}

TEST(ChartRenderer, DrawsEqualChartsEqually) {
  // Fifty labels of one size on top of each other. The order of equal elements decides which labels are left out.
  Dataset dataset = rich_dataset();
  std::vector<Result> results = test::ladder_results();
  for (int i = 0; i < 50; ++i) {
    results.push_back(test::make_result({fmt::format("switch-{:02}", i)}, {90, 90, 90, 90, 90, 90}));
    test::set_memory(results.back(), 4'194'304, 8'388'608, 10'485'760);
    test::set_quality(results.back(), "accuracy", 0.9, Interval{0.8, 0.95});
  }
  ResultFile kernels = test::kernel_file();
  for (int i = 0; i < 30; ++i)
    test::add_kernel(kernels, "linear", fmt::format("linear {:02}", i), "bf16", "matrix", 5e5, 1e9, {1, 1, 1});
  for (const Dataset& drawn : {std::move(dataset), test::make_dataset({test::make_file(results), kernels})}) {
    const ChartSet set = draw_charts(drawn);
    std::vector<std::string> first;
    for (int run = 0; run < 3; ++run) {
      ChartRenderer fresh;
      for (std::size_t i = 0; i < set.charts.size(); ++i) {
        const std::string svg = fresh.to_svg(set.charts[i]);
        if (run == 0)
          first.push_back(svg);
        else
          EXPECT_TRUE(svg == first[i]) << set.charts[i].file;
      }
    }
  }
}

TEST(ScriptEngine, SortsStably) {
  ScriptEngine engine;
  const char* const kEqual =
      "(function (n) { var list = []; for (var i = 0; i < n; ++i) list.push({key: i % 3, at: i});"
      "list.sort(function (a, b) { return a.key - b.key; });"
      "for (i = 1; i < n; ++i) if (list[i - 1].key > list[i].key || (list[i - 1].key === list[i].key && list[i - 1].at "
      "> list[i].at))"
      "  return 'at ' + i;"
      "return 'stable'; })";
  for (const char* n : {"0", "1", "2", "3", "10", "511", "512", "513", "20000"})
    EXPECT_EQ(engine.call(kEqual, n), "stable") << n;
  EXPECT_EQ(engine.call("(function () { return [3, undefined, 10, 2, , 'b', 'a'].sort().join(); })", ""),
            "10,2,3,a,b,,");
  EXPECT_EQ(engine.call("(function () { var seen = ''; for (var key in [1]) seen += key; return seen; })", ""), "0")
      << "it is no member that a loop over an array sees";
  EXPECT_EQ(engine.call("(function () { return [2, 1, 3].sort(function (a, b) { return b - a; }).join(); })", ""),
            "3,2,1");
  EXPECT_EQ(engine.call("(function () { return Array.prototype.sort.call({0: 2, 1: 1, length: 2})[0]; })", ""), "1");
}

TEST(ScriptEngine, HasNoClock) {
  ScriptEngine engine;
  const char* const kPassed =
      "(function () { var start = +new Date(), now = Date.now(), sum = 0; for (var i = 0; i < 300000; ++i) sum += i;"
      "return [start, now, new Date() - start, Date.now() - now].join(); })";
  EXPECT_EQ(engine.call(kPassed, ""), "0,0,0,0");
  EXPECT_EQ(engine.call(
                "(function () { var day = new Date(Date.UTC(2026, 1, 3)); return [day.getTime(), day instanceof Date, "
                "new Date(2026, 1).getMonth(), typeof Date()].join(); })",
                ""),
            "1770076800000,true,1,string");
}

TEST(ScriptEngine, RepeatsItsRandomNumbers) {
  const char* const kThree = "(function () { return [Math.random(), Math.random(), Math.random()].join(); })";
  ScriptEngine one, other;
  const std::string numbers = one.call(kThree, "");
  EXPECT_EQ(other.call(kThree, ""), numbers);
  EXPECT_NE(one.call(kThree, ""), numbers);
}

TEST(ScriptEngine, SaysWhatFails) {
  ScriptEngine engine;
  EXPECT_THAT(error_of([&] { engine.run("throw new Error('so it is')", "a.js"); }), HasSubstr("so it is"));
  EXPECT_THAT(error_of([&] { engine.run("var = 1", "b.js"); }), HasSubstr("b.js"));
  EXPECT_EQ(engine.call("(function (text) { return text + '!'; })", "grüß"), "grüß!");
}

}  // namespace
}  // namespace headroom
