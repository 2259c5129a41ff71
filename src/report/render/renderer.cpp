#include "report/render/renderer.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "report/assets.hpp"
#include "report/render/html.hpp"
#include "report/render/rasterizer.hpp"

namespace headroom {
namespace {

constexpr int kMargin = 24;

/// A length in layout units as an SVG attribute: "960", or "8.5cm" in the requested unit.
std::string svg_length(int units, const FigureLayout& layout, const FigureStyle& style) {
  if (!style.width) return fmt::format("{}", units);
  return fmt::format("{:.6g}{}", style.width->value * units / layout.width, style.width->unit);
}

// The browser functions that the library expects. It draws synchronously, so timers never fire.
constexpr std::string_view kBrowser =
    "var window = this, self = this;"
    "var console = {log: function () {}, warn: function () {}, error: function () {}};"
    "function setTimeout() { return 0; }"
    "function clearTimeout() {}";
// The library uses the width of an ideograph, which is square, as the line height; a Latin font has none.
constexpr std::string_view kMeasure =
    "echarts.setPlatformAPI({measureText: function (text, font) {"
    "  return {width: text === '\\u56fd' ? parseFloat(/([0-9.]+)px/.exec(font)[1]) : measure_text(text, font)};"
    "}});";

/// `option` without tooltips, which may be larger than all the rest.
nlohmann::json without_tips(const nlohmann::json& option) {
  if (option.is_array()) {
    nlohmann::json kept = nlohmann::json::array();
    for (const nlohmann::json& item : option) kept.push_back(without_tips(item));
    return kept;
  }
  if (!option.is_object()) return option;
  nlohmann::json kept = nlohmann::json::object();
  for (const auto& [key, value] : option.items())
    if (key != "tip" && key != "tooltip") kept[key] = without_tips(value);
  return kept;
}

/// One <text> element at the left margin.
std::string text_line(std::string_view text, int y, std::string_view style) {
  return fmt::format(R"(<text x="{}" y="{}" style="font-family:'{}',sans-serif;{}" xml:space="preserve">{}</text>)",
                     kMargin, y, kChartFont, style, escape_html(text));
}

/// Wraps `text` into lines of at most `width` units, broken at blanks and after each plus in names of switches. A
/// longer piece gets a line of its own and is cut.
std::vector<std::string> wrap(std::string_view text, double width, std::string_view font) {
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) lines.push_back(std::exchange(line, {}));
  };
  bool is_after_blank = false;
  while (!text.empty()) {
    const std::size_t stop = std::min(text.find_first_of(" +"), text.size());
    const std::size_t size = stop < text.size() && text[stop] == '+' ? stop + 1 : stop;
    const std::string piece(text.substr(0, size));
    text.remove_prefix(size);
    if (piece.empty()) {
      text.remove_prefix(1);
      is_after_blank = true;
      continue;
    }
    std::string longer = line + (is_after_blank && !line.empty() ? " " : "") + piece;
    is_after_blank = false;
    if (!line.empty() && text_width(longer, font) > width) {
      flush();
      longer = piece;
    }
    line = line.empty() && text_width(piece, font) > width ? cut_text(piece, 60) : std::move(longer);
  }
  flush();
  return lines;
}

/// The library numbers its documents with id prefixes zr0-, zr1-. They are removed, so that equal charts give equal
/// text. Untrusted text occurs only between tags.
std::string without_document_number(std::string_view svg) {
  std::string out;
  out.reserve(svg.size());
  bool is_in_tag = false;
  for (std::size_t i = 0; i < svg.size();) {
    is_in_tag = svg[i] == '<' || (is_in_tag && svg[i] != '>');
    std::size_t end = i + 2;
    if (is_in_tag && svg.substr(i, 2) == "zr") end = std::min(svg.find_first_not_of("0123456789", end), svg.size());
    if (end > i + 2 && end < svg.size() && svg[end] == '-') {
      out += "zr";
      i = end;
      continue;
    }
    out += svg[i++];
  }
  return out;
}

/// librsvg does not support dominant-baseline: text centred on its line is moved down by the same amount instead.
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
  engine_.run(echarts_long_names_js(), "echarts.js");
  engine_.run(charts_js(), "charts.js");
  engine_.define_measure("measure_text", text_width);
  engine_.run(kMeasure, "measure");
}

std::string ChartRenderer::to_svg(const Chart& chart, const FigureStyle& style) {
  const FigureLayout layout = layout_of(chart, style);
  const double line_width = layout.width - 2 * kMargin;
  const nlohmann::json asked = {{"option", without_tips(chart.option)},
                                {"width", line_width},
                                {"height", layout.plot_height},
                                {"font", fmt::format("{}, sans-serif", kChartFont)}};
  constexpr std::string_view kDraw = "(function (json) { Math.random.restart(); return headroom.to_svg(json); })";
  std::string inner = without_baselines(without_document_number(engine_.call(kDraw, dump_json(asked))));
  // Half of an axis's outermost label may reach beyond the plot, into the margin.
  constexpr std::string_view kOpening = "<svg ";
  HR_CHECK(inner.starts_with(kOpening));
  inner.insert(kOpening.size(), R"(overflow="visible" )");

  std::string head, foot;
  int y = style.titles ? 20 : 0;
  const auto write = [&](std::string& out, std::string_view text, std::string_view font, int advance,
                         std::string_view css) {
    for (const std::string& line : wrap(text, line_width, font)) out += text_line(line, y += advance, css);
  };
  if (style.titles) {
    write(head, chart.title, "bold 20px", 22, "font-size:20px;font-weight:bold;fill:#1b2430");
    write(head, chart.subtitle, "13px", 20, "font-size:13px;fill:#566273");
  }
  y += 14;
  const int top = y;
  y += layout.plot_height + 4;
  if (style.notes)
    for (const std::string& note : chart.notes) write(foot, note, "12px", 17, "font-size:12px;fill:#566273");
  const int height = y + (style.notes ? kMargin : kMargin / 4);
  return clean_xml(fmt::format(
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{0}" height="{1}" )svg"
      R"svg(viewBox="0 0 {2} {3}"><title>{4}</title><rect width="{2}" height="{3}" fill="#ffffff"/>{5})svg"
      R"svg(<g transform="translate({6},{7})">{8}</g>{9}</svg>)svg"
      "\n",
      svg_length(layout.width, layout, style), svg_length(height, layout, style), layout.width, height,
      escape_html(chart.title), head, kMargin, top, inner, foot));
}

SvgSize size_of_svg(std::string_view svg) {
  constexpr std::string_view kBox = " viewBox=\"0 0 ";
  const std::size_t at = std::min(svg.find(kBox), svg.size() - std::min(svg.size(), kBox.size()));
  const char* const end = svg.data() + svg.size();
  SvgSize size;
  const auto width = std::from_chars(svg.data() + at + kBox.size(), end, size.width);
  if (width.ptr != end) std::from_chars(width.ptr + 1, end, size.height);
  if (size.width <= 0 || size.height <= 0) fail("a chart's SVG does not say its size: expected{}W H\"", kBox);
  return size;
}

}  // namespace headroom
