// The dashboard as a reader meets it: in a real browser, from disk, without a network.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "dashboard/browser.hpp"
#include "report/advice/deploy.hpp"
#include "report/plots/option.hpp"
#include "report/render/html.hpp"
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

const fs::path kLadder = fs::path(kSourceDir) / "bench/results/cpu/ladder.json";

Dataset read_ladder() { return Dataset::read(std::vector<fs::path>{kLadder}); }

/// Writes the dashboard of `dataset`, and no chart files.
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

/// Shows each chart of the scenario in turn and evaluates an expression for it: [file, value].
json for_each_chart(Browser& browser, const std::string& expression) {
  return browser.evaluate(
      "Array.from(document.querySelectorAll('ul.kinds:not([hidden]) li')).flatMap(li => { const b = "
      "li.querySelector('button'), s = li.querySelector('select'); b.click(); return (s ? Array.from(s.options, o => "
      "o.value) : [b.dataset.chart]).map(file => { if (s) { s.value = file; s.dispatchEvent(new Event('change', "
      "{bubbles: true})); } return [document.querySelector('figure.shown').id, " +
      expression + "]; }); })");
}
/// How many charts a scenario has.
constexpr const char* kCharts =
    "document.querySelectorAll('ul.kinds:not([hidden]) option').length + "
    "document.querySelectorAll('ul.kinds:not([hidden]) li:not(:has(select))').length";

TEST_F(DashboardTest, DrawsEveryChartFromDiskAlone) {
  open(1600, "light");
  EXPECT_THAT(browser_.requests(), ElementsAre("file://" + dashboard_.string()));
  const json drawn = for_each_chart(browser_,
                                    "document.querySelectorAll('.plot svg path').length, "
                                    "document.querySelectorAll('.plot svg text').length, "
                                    "document.querySelectorAll('figure.chart.shown').length");
  ASSERT_GE(drawn.size(), 8U);
  for (const json& chart : drawn) {
    EXPECT_GT(chart[1], 5) << chart;
    EXPECT_GT(chart[2], 5) << chart;
    EXPECT_EQ(chart[3], 1) << "one at a time";
  }
}

TEST_F(DashboardTest, ATooltipTellsTheExactTimeAndItsInterval) {
  open(1600, "light");
  const Measurement& m = dataset_.measurements().front();
  const json place = browser_.evaluate(
      "(() => { const plot = document.querySelector('[id^=speedup_comparison] .plot'); plot.scrollIntoView({block: "
      "'center'});"
      "const box = plot.getBoundingClientRect(), chart = echarts.getInstanceByDom(plot);"
      "const at = chart.convertToPixel({seriesIndex: 0}, [chart.getOption().series[0].data[0].value / 2, 0]);"
      "return [box.left + at[0], box.top + at[1]]; })()");
  browser_.move_mouse(place[0], place[1]);
  browser_.wait_for("document.querySelector('[id^=speedup_comparison] .tip')");
  const std::string tip = browser_.evaluate("document.querySelector('[id^=speedup_comparison] .tip').textContent");
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

  browser_.evaluate("document.getElementById('measurements').open = true");
  browser_.evaluate("document.querySelector('#table tbody tr:not([hidden]) button.trials').click()");
  const std::string raw = browser_.evaluate("document.querySelector('#table tr.raw').textContent");
  const Measurement* bf16 = nullptr;
  for (const Measurement& m : dataset_.measurements())
    if (m.label == "arena+flash+fuse+hoist+bf16") bf16 = &m;
  for (const TrialSeries& series : bf16->result->trials)
    for (const double time : series.time_ms) EXPECT_THAT(raw, HasSubstr(fmt::format("{}", time)));
  browser_.evaluate("document.querySelector('#table tr.raw details').open = true");
  browser_.wait_for("document.querySelector('#table .trial-plot svg')");
  EXPECT_EQ(browser_.evaluate(
                "echarts.getInstanceByDom(document.querySelector('.trial-plot')).getOption().series[1].data.length"),
            bf16->result->trials.front().time_ms.size());
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
      for (const json& chart : for_each_chart(
               browser_, std::string(kOverlaps) +
                             ", document.querySelector('figure.shown').dataset.drawn, "
                             "document.querySelector('.plot svg').getBoundingClientRect().right <= innerWidth, " +
                             test::kPoorContrasts)) {
        EXPECT_EQ(chart[1], json::array()) << chart[0];
        EXPECT_EQ(chart[2], scheme);
        EXPECT_EQ(chart[3], true);
        EXPECT_EQ(chart[4], json::array()) << chart[0];
      }
      if (const char* const keep = std::getenv("HEADROOM_KEEP_SCREENSHOTS"))
        browser_.take_screenshot(fs::path(keep) / fmt::format("dashboard-{}-{}.png", scheme, width));
    }
}

TEST_F(DashboardTest, FollowsTheSchemeAndPrintsEveryChartOfTheScenarioLight) {
  open(1600, "light");
  browser_.set_screen(1600, 900, "dark");
  browser_.wait_for("document.querySelector('figure.shown').dataset.drawn === 'dark'");
  browser_.evaluate(
      "window.addEventListener('beforeprint', () => { window.printed = "
      "Array.from(document.querySelectorAll('figure.shown')).map(f => f.dataset.drawn + (f.querySelector('svg') ? '' : "
      "' "
      "empty')); })");
  EXPECT_GT(browser_.print().size(), 50'000U);
  const json charts = browser_.evaluate(kCharts);
  EXPECT_GT(charts, 8);
  EXPECT_EQ(browser_.evaluate("window.printed"), json(std::vector<std::string>(charts, "light")));
  EXPECT_EQ(browser_.evaluate("Array.from(document.querySelectorAll('figure.shown')).map(f => f.dataset.drawn)"),
            json::array({"dark"}));
}

TEST_F(DashboardTest, OpensWithTheDecision) {
  open(1400, "light");
  const Decision decision = decide(dataset_, views_of(dataset_).front(), 0.01);
  const std::string seen = browser_.evaluate("document.querySelector('.decision:not([hidden])').innerText");
  EXPECT_THAT(seen, HasSubstr("Deploy " + decision.deploy->measurement->label));
  EXPECT_THAT(seen, HasSubstr(label_ms(decision.deploy->measurement->time().median_ms)));
  EXPECT_THAT(seen, HasSubstr("PSNR"));
  EXPECT_THAT(seen, HasSubstr("Faster, beyond the limit"));
  EXPECT_LE(browser_.evaluate("document.querySelector('.decision:not([hidden])').getBoundingClientRect().bottom"), 900);
}

/// Folders of bench/results, of which one page is made.
struct Committed {
  std::string name;
  std::vector<std::string> folders;
};
void PrintTo(const Committed& committed, std::ostream* stream) { *stream << committed.name; }
class CommittedResults : public testing::TestWithParam<Committed> {};

TEST_P(CommittedResults, EveryScenarioIsTwoKeysAwayAndFits) {
  const TempFolder folder;
  std::vector<fs::path> paths;
  for (const std::string& name : GetParam().folders) paths.push_back(fs::path(kSourceDir) / "bench/results" / name);
  const Dataset dataset = Dataset::read(paths);
  const std::size_t scenarios = views_of(dataset).size();
  Browser browser;
  browser.set_screen(1400, 900, "light");
  browser.open(write_dashboard(dataset, folder));
  browser.wait_for("document.body.dataset.drawn === 'all'");
  ASSERT_GT(scenarios, 9U);
  ASSERT_LT(scenarios, 100U);
  const char* const kShown =
      "[document.body.dataset.scenario, document.getElementById('scenario').value, "
      "Array.from(document.querySelectorAll('[data-view]:not([hidden])')).every(e => e.dataset.view === "
      "document.body.dataset.scenario), document.querySelectorAll('.decision:not([hidden])').length]";
  for (std::size_t number = 1; number <= scenarios; ++number) {
    const std::string digits = std::to_string(number);
    browser.press("Tab");  // ends the number before
    browser.evaluate("document.activeElement.blur()");
    for (const char digit : digits) browser.press(std::string(1, digit));
    browser.wait_for(fmt::format("document.body.dataset.scenario === '{}'", digits));
    EXPECT_EQ(browser.evaluate(kShown), json::array({digits, digits, true, 1}));
    EXPECT_LE(browser.evaluate("document.documentElement.scrollHeight"), 4500) << number;
    EXPECT_LE(browser.evaluate("document.documentElement.scrollWidth"), 1400) << number;
    EXPECT_LE(browser.evaluate("document.querySelector('.decision:not([hidden])').getBoundingClientRect().bottom"), 900)
        << number << ": what it says is seen without scrolling";
  }
  browser.press("ArrowLeft");
  browser.wait_for(fmt::format("document.body.dataset.scenario === '{}'", scenarios - 1));
  browser.press("ArrowRight");
  browser.wait_for(fmt::format("document.body.dataset.scenario === '{}'", scenarios));
  browser.evaluate("document.querySelector('#all a').click()");
  browser.wait_for("document.body.dataset.scenario === '1'");
  const std::string kChart = "document.querySelector('figure.shown').id";
  const std::string chart = browser.evaluate(kChart);
  browser.press("ArrowRight", true);
  EXPECT_NE(browser.evaluate(kChart), chart);
  browser.press("ArrowLeft", true);
  EXPECT_EQ(browser.evaluate(kChart), chart);
  browser.evaluate("document.getElementById('scenario').focus()");
  browser.press("ArrowDown");
  browser.wait_for("document.body.dataset.scenario === '2'");
  EXPECT_THAT(browser.complaints(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(, CommittedResults,
                         testing::Values(Committed{"cpu", {"cpu"}}, Committed{"h200", {"h200"}},
                                         Committed{"h200_networks_and_streams", {"h200", "unets/h200", "streams/h200"}},
                                         Committed{"all", {""}}),
                         [](const auto& committed) { return committed.param.name; });

TEST(DashboardOfManyResults, IsNotLongerForMoreOfThem) {
  const auto height_with = [](int works) {
    std::vector<ResultFile> files;
    for (int i = 0; i < works; ++i) {
      Subject subject = test::denoise_subject();
      subject.request["steps"] = i + 1;
      files.push_back(
          test::make_file({test::make_result({}, {20, 20}, subject), test::make_result({"arena"}, {10, 10}, subject)}));
    }
    ResultFile kernels = test::kernel_file();
    for (int i = 0; i < works; ++i)
      test::add_kernel(kernels, "attention", fmt::format("attention bf16 {}", i), "bf16", "matrix", 1e6, 2e9, {4, 4});
    files.push_back(std::move(kernels));
    const TempFolder folder;
    Browser browser;
    browser.set_screen(1400, 900, "light");
    browser.open(write_dashboard(test::make_dataset(std::move(files)), folder));
    double most = 0;
    for (const int view : {1, works + 1}) {  // the last has the kernels
      browser.evaluate(fmt::format("location.hash = 'scenario-{}'", view));
      browser.wait_for(fmt::format("document.body.dataset.scenario === '{}'", view));
      most = std::max(most, browser.evaluate("document.documentElement.scrollHeight").get<double>());
    }
    return most;
  };
  EXPECT_EQ(height_with(60), height_with(120));
}

TEST(DashboardOfManyResults, ShowsTheSameKindOfChartInTheNextScenario) {
  std::vector<ResultFile> files;
  for (const int steps : {4, 8}) {
    Subject subject = test::denoise_subject();
    subject.request["steps"] = steps;
    files.push_back(
        test::make_file({test::make_result({}, {20, 20}, subject), test::make_result({"arena"}, {10, 10}, subject)}));
  }
  const TempFolder folder;
  Browser browser;
  browser.set_screen(1400, 900, "light");
  browser.open(write_dashboard(test::make_dataset(std::move(files)), folder));
  browser.wait_for("document.body.dataset.scenario === '1'");
  browser.evaluate("document.querySelector('ul.kinds:not([hidden]) [data-chart^=latency_distribution]').click()");
  browser.evaluate("document.getElementById('next').click()");
  browser.wait_for("document.body.dataset.scenario === '2'");
  EXPECT_THAT(browser.evaluate("document.querySelector('figure.shown').id").get<std::string>(),
              testing::StartsWith("latency_distribution-"));
}

TEST(ChartPages, DrawWithTheLibraryOfTheirFolder) {
  const TempFolder folder;
  const std::string page =
      write_report(read_ladder(), folder.path(), {.formats = {ChartFormat::kHtml}}).charts.front() + ".html";
  EXPECT_THAT(page, testing::StartsWith("speedup_comparison-"));
  Browser browser;
  browser.set_screen(1400, 900, "light");
  browser.open(folder.path() / page);
  browser.wait_for("document.body.dataset.drawn === 'all'");
  EXPECT_GT(browser.evaluate("document.querySelectorAll('.plot svg path').length"), 5);
  EXPECT_THAT(browser.requests(), ElementsAre("file://" + (folder.path() / page).string(),
                                              "file://" + (folder.path() / "performance_charts.js").string()));
  EXPECT_THAT(browser.complaints(), IsEmpty());
}

TEST(DashboardOfALadder, ShowsItsImagesNextToTheBaselines) {
  const TempFolder folder;
  const auto png = [](std::string_view pixels) { return "\x89PNG\r\n\x1a\n" + std::string(pixels); };
  std::vector<Result> results = {test::make_result({}, {20, 20}), test::make_result({"arena"}, {10, 10})};
  write_results(folder.path() / "results.json", test::make_file(results));
  write_file_atomically(folder.path() / "baseline.png", png("one"));
  const std::vector<fs::path> paths = {folder.path() / "results.json"};
  const auto pictures = [&](Browser& browser) {
    browser.open(write_dashboard(Dataset::read(paths), folder));
    return browser.evaluate("Array.from(document.querySelectorAll('.pictures img')).map(i => i.src)");
  };
  Browser browser;
  browser.set_screen(1400, 900, "light");
  EXPECT_EQ(pictures(browser), json::array()) << "both or none";
  write_file_atomically(folder.path() / "arena.png", png("other"));
  EXPECT_EQ(pictures(browser),
            json::array({"data:image/png;base64,iVBORw0KGgpvbmU=", "data:image/png;base64,iVBORw0KGgpvdGhlcg=="}));
}

TEST_F(DashboardTest, ListsExactValuesWithoutAPointer) {
  open(1600, "light");
  browser_.evaluate("document.querySelector('[id^=speedup_comparison] details').open = true");
  browser_.wait_for("document.querySelector('[id^=speedup_comparison] .value-list')");
  EXPECT_THAT(browser_.evaluate("document.querySelector('[id^=speedup_comparison] .value-list').textContent")
                  .get<std::string>(),
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
      "(() => { const plot = document.querySelector('[id^=speedup_comparison] .plot'); plot.scrollIntoView(); const "
      "box = "
      "plot.getBoundingClientRect(), chart = echarts.getInstanceByDom(plot); const at = "
      "chart.convertToPixel({seriesIndex: 0}, [0, 1]);"
      "return [box.left + at[0] + 1, box.top + at[1]]; })()");
  browser.move_mouse(place[0], place[1]);
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('img').length"), 0);
  EXPECT_THAT(browser.complaints(), IsEmpty());
}

/// Puts markup with handlers and scripts into the page that is open, as if a name had stood there unescaped; whether any of it ran.
bool runs_injected_scripts(Browser& browser) {
  browser.evaluate(
      "(() => { const box = document.createElement('div'); document.body.appendChild(box);"
      "box.innerHTML = \"<img src='data:image/png;base64,x' onerror='window.hacked = 1'><svg onload='window.hacked = "
      "2'></svg>"
      "<details open ontoggle='window.hacked = 3'>x</details><a id='lure' href='javascript:window.hacked=4'>x</a>"
      "<iframe srcdoc='<script>parent.hacked = 5</scr' + 'ipt>'></iframe>\";"
      "const script = document.createElement('script'); script.textContent = 'window.hacked = 6'; "
      "box.appendChild(script);"
      "document.getElementById('lure').click(); })()");
  browser.evaluate("new Promise(done => setTimeout(done, 300))");
  return browser.evaluate("window.hacked !== undefined");
}

TEST(PagesOfReports, RunNoScriptButTheirOwn) {
  const TempFolder folder;
  const ReportFiles written = write_report(read_ladder(), folder.path(), {.formats = {ChartFormat::kHtml}});
  for (const std::string& page : {std::string("performance_dashboard.html"), written.charts.front() + ".html"}) {
    Browser browser;
    browser.set_screen(1400, 900, "light");
    browser.open(folder.path() / page);
    browser.wait_for("document.body.dataset.drawn === 'all'");
    EXPECT_FALSE(runs_injected_scripts(browser)) << page;
    EXPECT_THAT(browser.complaints(), testing::Contains(HasSubstr("Content Security Policy"))) << page;
  }
}

TEST(DashboardOfHostileResults, ShowsTheNamesOfSeriesAsText) {
  const std::string hostile = "<img src=x onerror='window.hacked = 1'>";
  std::vector<Result> results = {test::make_result({}, {20, 20}, test::denoise_subject(), hostile),
                                 test::make_result({"arena"}, {10, 10}, test::denoise_subject(), hostile)};
  for (Result& result : results) result.subject.request.erase("steps");
  const TempFolder folder;
  Browser browser;
  browser.set_screen(1400, 900, "light");
  browser.open(write_dashboard(test::make_dataset({test::make_file(results)}), folder));
  browser.wait_for("document.body.dataset.drawn === 'all'");
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('img').length"), 0);
  EXPECT_THAT(browser.evaluate("document.querySelector('#all tbody').textContent").get<std::string>(),
              HasSubstr("per " + hostile));
  EXPECT_EQ(browser.evaluate("window.hacked === undefined"), true);
  EXPECT_THAT(browser.complaints(), IsEmpty());
}

TEST(LargeDashboard, HoldsAHundredThousandTrials) {
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
      Trials loads;
      for (int n = 0; n < 400; ++n) loads.wall_ms.push_back(30 * noise(random));
      results.back().trials.push_back(make_series("load", loads));
      test::set_memory(results.back(), 1'000'000, 2'000'000 + i, 3'000'000);
      test::set_quality(results.back(), "psnr_db", 60 - i);
    }
    files.push_back(test::make_file(results));
  }
  const TempFolder folder;
  const fs::path dashboard = write_dashboard(test::make_dataset(std::move(files)), folder);
  EXPECT_LE(fs::file_size(dashboard), 6U << 20U);
  Browser browser;
  browser.set_screen(1600, 900, "light");
  browser.open(dashboard);
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('#table tbody tr').length"), 200);
  browser.wait_for("document.body.dataset.drawn === 'all'");
  EXPECT_THAT(browser.complaints(), IsEmpty());
}

}  // namespace
}  // namespace headroom
