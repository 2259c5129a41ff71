#include "report/renderer.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/first_failure.hpp"
#include "base/json.hpp"
#include "media/png.hpp"
#include "report/assets.hpp"
#include "report/html.hpp"
#include "report/rasterizer.hpp"

namespace headroom {
namespace {

constexpr double kPixelsPerUnit = 2;
constexpr int kMargin = 24;

// What the library expects of a browser. It draws at once, so timers never fire.
constexpr std::string_view kBrowser =
    "var window = this, self = this;"
    "var console = {log: function () {}, warn: function () {}, error: function () {}};"
    "function setTimeout() { return 0; }"
    "function clearTimeout() {}";
// The library takes the width of an ideograph, which is square, for the height of a line; a Latin font has none.
constexpr std::string_view kMeasure =
    "echarts.setPlatformAPI({measureText: function (text, font) {"
    "  return {width: text === '\\u56fd' ? parseFloat(/([0-9.]+)px/.exec(font)[1]) : measure_text(text, font)};"
    "}});";

/// One <text> element at the left margin.
std::string text_line(std::string_view text, int y, std::string_view style) {
  return fmt::format(R"(<text x="{}" y="{}" style="font-family:'{}',sans-serif;{}" xml:space="preserve">{}</text>)",
                     kMargin, y, kChartFont, style, escape_html(text));
}

/// `text` in lines of at most `width` units, broken at blanks; a longer word gets a line of its own and is cut.
std::vector<std::string> wrap(std::string_view text, double width, std::string_view font) {
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) lines.push_back(std::exchange(line, {}));
  };
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, blank));
    text.remove_prefix(std::min(blank + 1, text.size()));
    if (word.empty()) continue;
    std::string longer = line.empty() ? word : fmt::format("{} {}", line, word);
    if (!line.empty() && text_width(longer, font) > width) {
      flush();
      longer = word;
    }
    line = line.empty() && text_width(word, font) > width ? cut_text(word, 60) : std::move(longer);
  }
  flush();
  return lines;
}

/// librsvg knows no dominant-baseline: what is centred on its line is moved down by as much instead.
std::string without_baselines(std::string_view svg) {
  static constexpr std::pair<std::string_view, std::string_view> kReplaced[] = {
      {R"(dominant-baseline="central")", R"(dy="0.35em")"},
      {R"(dominant-baseline="middle")", R"(dy="0.35em")"},
      {R"(dominant-baseline="hanging")", R"(dy="0.75em")"},
      {R"(dominant-baseline="text-before-edge")", R"(dy="0.9em")"}};
  std::string out;
  while (!svg.empty()) {
    std::size_t at = svg.find("dominant-baseline=");
    out += svg.substr(0, at);
    if (at == std::string_view::npos) break;
    svg.remove_prefix(at);
    const auto* const found =
        std::ranges::find_if(kReplaced, [&](const auto& pair) { return svg.starts_with(pair.first); });
    if (found == std::end(kReplaced)) {
      out += svg.front();
      svg.remove_prefix(1);
      continue;
    }
    out += found->second;
    svg.remove_prefix(found->first.size());
  }
  return out;
}

}  // namespace

ChartRenderer::ChartRenderer() {
  require_rasterizer();
  engine_.run(kBrowser, "browser");
  engine_.run(echarts_js(), "echarts.min.js");
  engine_.run(charts_js(), "charts.js");
  engine_.define_measure("measure_text", text_width);
  engine_.run(kMeasure, "measure");
}

std::string ChartRenderer::to_svg(const Chart& chart) {
  const nlohmann::json asked = {{"option", chart.option},
                                {"width", chart.width - 2 * kMargin},
                                {"height", chart.height},
                                {"font", fmt::format("{}, sans-serif", kChartFont)}};
  std::string inner =
      without_baselines(engine_.call("(function (json) { return headroom.to_svg(json); })", dump_json(asked)));

  const double line_width = chart.width - 2 * kMargin;
  std::string head, foot;
  int y = 20;
  const auto write = [&](std::string& out, std::string_view text, std::string_view font, int advance,
                         std::string_view style) {
    for (const std::string& line : wrap(text, line_width, font)) out += text_line(line, y += advance, style);
  };
  write(head, chart.title, "bold 20px", 22, "font-size:20px;font-weight:bold;fill:#1b2430");
  write(head, chart.subtitle, "13px", 20, "font-size:13px;fill:#566273");
  y += 14;
  const int top = y;
  y += chart.height + 4;
  for (const std::string& note : chart.notes) write(foot, note, "12px", 17, "font-size:12px;fill:#566273");
  const int height = y + kMargin;
  return clean_xml(fmt::format(
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{0}" height="{1}" )svg"
      R"svg(viewBox="0 0 {0} {1}"><title>{2}</title><rect width="{0}" height="{1}" fill="#ffffff"/>{3})svg"
      R"svg(<g transform="translate({4},{5})">{6}</g>{7}</svg>)svg"
      "\n",
      chart.width, height, escape_html(chart.title), head, kMargin, top, inner, foot));
}

SvgSize size_of_svg(std::string_view svg) {
  const auto read = [&](std::string_view key) {
    const std::size_t at = svg.find(key);
    int value = 0;
    if (at != std::string_view::npos) std::from_chars(svg.data() + at + key.size(), svg.data() + svg.size(), value);
    if (value <= 0) fail("a chart's SVG does not say its size: expected {}N\"", key);
    return value;
  };
  return {.width = read(" width=\""), .height = read(" height=\"")};
}

void write_pngs(std::span<const std::pair<std::filesystem::path, std::string>> svgs) {
  std::atomic<std::size_t> next = 0;
  FirstFailure failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < svgs.size(); i = next++) {
      failure.guard([&] {
        const auto& [path, svg] = svgs[i];
        const SvgSize size = size_of_svg(svg);
        write_png(path, rasterize(svg, size.width, size.height, kPixelsPerUnit));
      });
    }
  };
  const std::size_t wanted = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 4);
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(wanted, svgs.size()); ++i) threads.emplace_back(work);
  work();
  threads.clear();
  failure.rethrow();
}

}  // namespace headroom
