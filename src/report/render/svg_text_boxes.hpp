#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/render/rasterizer.hpp"

/// Positions of the texts in a chart's SVG, by the metrics of its font: for legibility tests.
namespace headroom::test {

struct Point {
  double x = 0, y = 0;
};

/// One line of text, rotated or not.
struct TextBox {
  std::string text;
  std::array<Point, 4> corners;
};

namespace boxes {

inline std::string attribute(std::string_view element, const std::string& name) {
  const std::string key = " " + name + "=\"";
  const std::size_t at = element.find(key);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = at + key.size();
  return std::string(element.substr(begin, element.find('"', begin) - begin));
}

inline std::vector<double> numbers(std::string_view list) {
  std::vector<double> found;
  for (const char *at = list.data(), *const end = at + list.size(); at < end;) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error == std::errc{}) found.push_back(value);
    at = error == std::errc{} ? next : at + 1;
  }
  return found;
}

inline std::string decoded(std::string text) {
  static const std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"\xEF\xBB\xBF", ""}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities)
    for (std::size_t at = 0; (at = text.find(entity, at)) != std::string::npos; at += character.size())
      text.replace(at, entity.size(), character);
  return text;
}

/// Width of text in a CSS font of one size; cached.
inline double width(const std::string& text, const std::string& font) {
  static std::map<std::pair<std::string, std::string>, double> known;
  const auto [found, is_new] = known.try_emplace({text, font});
  if (is_new) found->second = text_width(text, font);
  return found->second;
}

inline TextBox box_of(std::string_view element, std::string text, Point offset) {
  const std::string style = attribute(element, "style"), anchor = attribute(element, "text-anchor");
  const std::size_t size_at = style.find("font-size:");
  const double size = size_at == std::string::npos ? 12 : std::atof(style.c_str() + size_at + 10);
  const bool is_bold = style.find("font-weight:bold") != std::string::npos;
  const double wide = width(text, fmt::format("{}{}px", is_bold ? "bold " : "", size));
  const auto number = [&](const char* name) { return std::atof(attribute(element, name).c_str()); };
  const double baseline = number("y") + number("dy") * size;
  const double left = number("x") - (anchor == "middle" ? wide / 2 : anchor == "end" ? wide : 0);
  const double top = baseline - 0.73 * size, bottom = baseline + 0.2 * size;
  std::array<double, 6> matrix = {1, 0, 0, 1, 0, 0};
  const std::string transform = attribute(element, "transform");
  const std::vector<double> given = numbers(transform);
  if (transform.starts_with("matrix") && given.size() == 6) std::copy_n(given.begin(), 6, matrix.begin());
  if (transform.starts_with("translate") && given.size() == 2) matrix = {1, 0, 0, 1, given[0], given[1]};
  TextBox box{.text = std::move(text), .corners = {}};
  const std::array<Point, 4> flat = {Point{left, top}, {left + wide, top}, {left + wide, bottom}, {left, bottom}};
  for (std::size_t i = 0; i < 4; ++i)
    box.corners[i] = {matrix[0] * flat[i].x + matrix[2] * flat[i].y + matrix[4] + offset.x,
                      matrix[1] * flat[i].x + matrix[3] * flat[i].y + matrix[5] + offset.y};
  return box;
}

/// The projection of a box onto a direction.
inline std::pair<double, double> shadow(const TextBox& box, Point direction) {
  std::pair<double, double> range = {1e300, -1e300};
  for (const Point& corner : box.corners) {
    const double at = corner.x * direction.x + corner.y * direction.y;
    range = {std::min(range.first, at), std::max(range.second, at)};
  }
  return range;
}

}  // namespace boxes

/// Every line of text of an SVG that ChartRenderer made.
inline std::vector<TextBox> text_boxes(std::string_view svg) {
  constexpr std::string_view kChart = "<g transform=\"translate(";
  const std::size_t chart = svg.find(kChart), end_of_chart = svg.rfind("</g>");
  Point inside;
  if (chart != std::string_view::npos) {
    const std::string_view rest = svg.substr(chart + kChart.size());
    const std::vector<double> offset = boxes::numbers(rest.substr(0, rest.find(')')));
    inside = {offset.at(0), offset.at(1)};
  }
  std::vector<TextBox> found;
  for (std::size_t at = 0; (at = svg.find("<text ", at)) != std::string_view::npos; ++at) {
    const std::size_t open = svg.find('>', at), close = svg.find("</text>", open);
    std::string text = boxes::decoded(std::string(svg.substr(open + 1, close - open - 1)));
    if (text.find_first_not_of(' ') == std::string::npos) continue;
    found.push_back(
        boxes::box_of(svg.substr(at, open - at), std::move(text), at > chart && at < end_of_chart ? inside : Point{}));
  }
  return found;
}

/// Whether two lines of text overlap by more than a pixel: no side direction of either box separates them
/// (separating axis test).
inline bool overlap(const TextBox& a, const TextBox& b) {
  constexpr double kTouch = 1;
  for (const TextBox* box : {&a, &b})
    for (std::size_t i = 0; i < 2; ++i) {
      Point side{box->corners[i + 1].x - box->corners[i].x, box->corners[i + 1].y - box->corners[i].y};
      const double length = std::max(1e-9, std::hypot(side.x, side.y));
      side = {side.x / length, side.y / length};
      const auto [a_low, a_high] = boxes::shadow(a, side);
      const auto [b_low, b_high] = boxes::shadow(b, side);
      if (std::min(a_high, b_high) - std::max(a_low, b_low) <= kTouch) return false;
    }
  return true;
}

/// Faults of the texts of an SVG of this size, one sentence each.
inline std::vector<std::string> text_faults(std::string_view svg, double width, double height) {
  std::vector<std::string> faults;
  const std::vector<TextBox> texts = text_boxes(svg);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto is_outside = [&](const Point& p) {
      return p.x < -0.5 || p.y < -0.5 || p.x > width + 0.5 || p.y > height + 0.5;
    };
    if (std::ranges::any_of(texts[i].corners, is_outside))
      faults.push_back(fmt::format("'{}' is cut by the edge", texts[i].text));
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(texts[i], texts[j]))
        faults.push_back(fmt::format("'{}' and '{}' overlap", texts[j].text, texts[i].text));
      if (texts[i].text == texts[j].text && texts[i].text.find("…") != std::string::npos)
        faults.push_back(fmt::format("'{}' is shared by two", texts[i].text));
    }
  }
  return faults;
}

}  // namespace headroom::test
