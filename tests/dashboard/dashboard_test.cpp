// The dashboard as a reader meets it: in a real browser, from disk, without a network.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file.hpp"
#include "base/test_util.hpp"
#include "dashboard/browser.hpp"
#include "report/html.hpp"
#include "report/option.hpp"
#include "report/report.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Browser;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const fs::path kLadder = fs::path(HEADROOM_SOURCE_DIR) / "bench/results/cpu/ladder.json";

Dataset read_ladder() { return Dataset::read(std::vector<fs::path>{kLadder}); }

/// Writes the dashboard of `dataset`, and no chart beside it.
fs::path write_dashboard(const Dataset& dataset, const TempFolder& folder) {
  return write_report(dataset, folder.path(), {.formats = {}, .max_quality_loss = 0.01}).dashboard;
}

class DashboardTest : public testing::Test {
 protected:
  void open(int width, std::string_view scheme) {
    browser_.set_screen(width, 900, scheme);
    browser_.open(dashboard_);
    browser_.wait_for("document.body.dataset.drawn === 'all'");
  }
  void TearDown() override { EXPECT_THAT(browser_.complaints(), IsEmpty()); }

  const TempFolder folder_;
  const Dataset dataset_ = read_ladder();
  const fs::path dashboard_ = write_dashboard(dataset_, folder_);
  Browser browser_;
};

TEST_F(DashboardTest, DrawsEveryChartFromDiskAlone) {
  open(1600, "light");
  EXPECT_THAT(browser_.requests(), ElementsAre("file://" + dashboard_.string()));
  const json drawn = browser_.evaluate(
      "Array.from(document.querySelectorAll('figure.chart')).map(f => [f.id, f.querySelectorAll('.plot svg "
      "path').length, "
      "f.querySelectorAll('.plot svg text').length])");
  ASSERT_GE(drawn.size(), 8U);
  for (const json& chart : drawn) {
    EXPECT_GT(chart[1], 5) << chart;
    EXPECT_GT(chart[2], 5) << chart;
  }
}

TEST_F(DashboardTest, ATooltipTellsTheExactTimeAndItsInterval) {
  open(1600, "light");
  const Measurement& m = dataset_.measurements().front();
  const json place = browser_.evaluate(
      "(() => { const plot = document.querySelector('#speedup_comparison .plot'); plot.scrollIntoView({block: "
      "'center'});"
      "const box = plot.getBoundingClientRect(), chart = echarts.getInstanceByDom(plot);"
      "const at = chart.convertToPixel({seriesIndex: 0}, [chart.getOption().series[0].data[0].value / 2, 0]);"
      "return [box.left + at[0], box.top + at[1]]; })()");
  browser_.move_mouse(place[0], place[1]);
  browser_.wait_for("document.querySelector('#speedup_comparison .tip')");
  const std::string tip = browser_.evaluate("document.querySelector('#speedup_comparison .tip').textContent");
  EXPECT_THAT(tip, HasSubstr("baseline"));
  EXPECT_THAT(tip, HasSubstr(exact(m.timing->median_ms, "ms")));
  EXPECT_THAT(tip, HasSubstr(exact(*m.timing->interval_ms, "ms")));
}

TEST_F(DashboardTest, TheTableSortsFiltersAndShowsRawTrials) {
  open(1600, "light");
  const std::string keys =
      "Array.from(document.querySelectorAll('#table tbody tr')).map(r => Number(r.cells[1].dataset.key))";
  const auto click = [&](std::string_view heading) {
    browser_.evaluate(fmt::format(
        "Array.from(document.querySelectorAll('#table th button')).find(b => b.textContent === '{}').click()",
        heading));
  };
  click("median");
  std::vector<double> sorted = browser_.evaluate(keys);
  EXPECT_EQ(sorted.size(), dataset_.measurements().size());
  EXPECT_TRUE(std::ranges::is_sorted(sorted));
  EXPECT_EQ(browser_.evaluate("document.querySelector('#table th[aria-sort]').getAttribute('aria-sort')"), "ascending");
  click("median");
  sorted = browser_.evaluate(keys).get<std::vector<double>>();
  EXPECT_TRUE(std::ranges::is_sorted(sorted, std::greater{}));

  browser_.evaluate(
      "{ const f = document.getElementById('filter'); f.value = 'BF16 arena'; f.dispatchEvent(new Event('input')); }");
  EXPECT_EQ(
      browser_.evaluate("Array.from(document.querySelectorAll('#table tbody tr')).filter(r => !r.hidden).map(r "
                        "=> r.cells[0].textContent).sort()"),
      json::parse(
          R"(["arena+flash+fuse+hoist+bf16", "arena+flash+fuse+hoist+bf16+tile", "arena+flash+fuse+hoist+bf16+tile+steps=14"])"));
  EXPECT_EQ(browser_.evaluate("document.getElementById('shown').textContent"), "3 of 14");

  browser_.evaluate("document.querySelector('#table tbody tr:not([hidden]) button.trials').click()");
  const std::string raw = browser_.evaluate("document.querySelector('#table tr.raw').textContent");
  const Measurement* bf16 = nullptr;
  for (const Measurement& m : dataset_.measurements())
    if (m.label == "arena+flash+fuse+hoist+bf16") bf16 = &m;
  for (const TrialSeries& series : bf16->result->trials)
    for (const double time : series.time_ms) EXPECT_THAT(raw, HasSubstr(fmt::format("{}", time)));
}

// Texts of a chart that lie on each other, as pairs.
constexpr const char* kOverlaps = R"((() => {
  const found = [];
  document.querySelectorAll('figure.chart').forEach(figure => {
    const boxes = Array.from(figure.querySelectorAll('.plot svg text')).filter(t => t.textContent.trim())
      .map(t => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left), h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 2 && h > 4) found.push([figure.id, a, b]);
    }));
  });
  return found; })())";

TEST_F(DashboardTest, IsReadableInLightAndDarkOnPhonesAndWideScreens) {
  for (const char* const scheme : {"light", "dark"})
    for (const int width : {390, 1600}) {
      open(width, scheme);
      SCOPED_TRACE(fmt::format("{} {}", scheme, width));
      EXPECT_LE(browser_.evaluate("document.documentElement.scrollWidth"), width);
      EXPECT_EQ(browser_.poor_contrasts(), json::array());
      EXPECT_EQ(browser_.evaluate(kOverlaps), json::array());
      EXPECT_EQ(browser_.evaluate("document.querySelector('figure.chart').dataset.drawn"), scheme);
      EXPECT_EQ(browser_.evaluate("Array.from(document.querySelectorAll('.plot svg')).every(s => "
                                  "s.getBoundingClientRect().right <= innerWidth)"),
                true);
      if (const char* const keep = std::getenv("HEADROOM_KEEP_SCREENSHOTS"))
        browser_.take_screenshot(fs::path(keep) / fmt::format("dashboard-{}-{}.png", scheme, width));
    }
}

TEST_F(DashboardTest, FollowsTheSchemeAndPrintsLight) {
  open(1600, "light");
  browser_.set_screen(1600, 900, "dark");
  browser_.wait_for("document.querySelector('figure.chart').dataset.drawn === 'dark'");
  browser_.evaluate(
      "window.addEventListener('beforeprint', () => { window.printed = "
      "document.querySelector('figure.chart').dataset.drawn; })");
  EXPECT_GT(browser_.print().size(), 50'000U);
  EXPECT_EQ(browser_.evaluate("window.printed"), "light");
  EXPECT_EQ(browser_.evaluate("document.querySelector('figure.chart').dataset.drawn"), "dark");
}

TEST_F(DashboardTest, ListsExactValuesWithoutAPointer) {
  open(1600, "light");
  browser_.evaluate("document.querySelector('#speedup_comparison details').open = true");
  browser_.wait_for("document.querySelector('#speedup_comparison .value-list')");
  EXPECT_THAT(
      browser_.evaluate("document.querySelector('#speedup_comparison .value-list').textContent").get<std::string>(),
      HasSubstr(exact(dataset_.measurements().front().timing->median_ms, "ms")));
}

TEST(DashboardOfHostileResults, ShowsThemAsText) {
  const std::string hostile = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\"'&";
  std::vector<Result> results = test::ladder_results();
  for (Result& result : results) result.subject.name = hostile;
  results[1].configuration.asked = results[1].configuration.applied = {hostile};
  results[2].configuration.asked = results[2].configuration.applied = {std::string(3000, 'W')};
  results[3].configuration.asked = results[3].configuration.applied = {"\u202Egnp.exe \u4e16\u754c \U0001F600"};
  results.push_back(test::make_result({"huge"}, {1e300, 1e300}));
  results.push_back(test::make_result({"tiny"}, {1e-300}));
  results.push_back(test::make_result({"zero"}, {0}));
  for (std::size_t i = 6; i < results.size(); ++i) results[i].subject.name = hostile;
  const TempFolder folder;
  const Dataset dataset = test::make_dataset({test::make_file(results), test::make_file({test::make_result({}, {1})})});
  Browser browser;
  browser.set_screen(390, 900, "light");
  browser.open(write_dashboard(dataset, folder));
  browser.wait_for("document.body.dataset.drawn === 'all'");
  EXPECT_EQ(browser.evaluate("window.hacked === undefined"), true);
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('img').length"), 0);
  EXPECT_THAT(browser.evaluate("document.querySelector('#table tbody').textContent").get<std::string>(),
              HasSubstr("<img src=x"));
  EXPECT_LE(browser.evaluate("document.documentElement.scrollWidth"), 390);
  const json place = browser.evaluate(
      "(() => { const plot = document.querySelector('#speedup_comparison .plot'); plot.scrollIntoView(); const box = "
      "plot.getBoundingClientRect(), chart = echarts.getInstanceByDom(plot); const at = "
      "chart.convertToPixel({seriesIndex: 0}, [0, 1]);"
      "return [box.left + at[0] + 1, box.top + at[1]]; })()");
  browser.move_mouse(place[0], place[1]);
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('img').length"), 0);
  EXPECT_THAT(browser.complaints(), IsEmpty());
}

TEST(LargeDashboard, OpensFastAndIsSmall) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> noise(0, 0.05);
  std::vector<ResultFile> files;
  for (int work = 0; work < 10; ++work) {
    Subject subject = test::denoise_subject();
    subject.request["images"] = work + 1;
    std::vector<Result> results;
    for (int i = 0; i < 20; ++i) {
      std::vector<double> trials(100);
      for (double& trial : trials) trial = (200 - 5 * i) * noise(random);
      std::vector<std::string> switches;
      if (i > 0) switches.push_back(fmt::format("switch-{}", i));
      results.push_back(test::make_result(switches, trials, subject));
      test::set_memory(results.back(), 1'000'000, 2'000'000 + i, 3'000'000);
      test::set_quality(results.back(), "psnr_db", 60 - i);
    }
    files.push_back(test::make_file(results));
  }
  const TempFolder folder;
  const fs::path dashboard = write_dashboard(test::make_dataset(std::move(files)), folder);
  EXPECT_LE(fs::file_size(dashboard), 4'000'000U);
  Browser browser;
  browser.set_screen(1600, 900, "light");
  const double before = browser.main_thread_seconds();
  browser.open(dashboard);
  browser.wait_for("document.querySelector('figure.chart').dataset.drawn");
  EXPECT_LE(browser.main_thread_seconds() - before, 2.0);
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('#table tbody tr').length"), 200);
  browser.wait_for("document.body.dataset.drawn === 'all'");
  EXPECT_THAT(browser.complaints(), IsEmpty());
}

}  // namespace
}  // namespace headroom
