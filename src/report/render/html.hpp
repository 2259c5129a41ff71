#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.hpp"

/// Text from results goes into pages and SVG only through these.
namespace headroom {

/// `text` with & < > " ' as entities: safe between tags and in quoted attributes.
[[nodiscard]] std::string escape_html(std::string_view text);
/// A name that came with the results, escaped: its direction cannot turn the text around it, and one of switches may
/// break after each plus.
[[nodiscard]] std::string name_html(std::string_view name);
/// JSON that can stand in a <script> element: no "<" in it.
[[nodiscard]] std::string script_json(const nlohmann::json& value);
/// `text` without what XML 1.0 cannot hold (control characters, bytes that are not UTF-8): each becomes U+FFFD.
[[nodiscard]] std::string clean_xml(std::string_view text);
/// The first `characters` characters of UTF-8 `text`, with an ellipsis where more follow.
[[nodiscard]] std::string cut_text(std::string_view text, std::size_t characters);
/// Each as cut_text() leaves it, but where two of them would then be equal, what is cut is the middle.
[[nodiscard]] std::vector<std::string> cut_names(const std::vector<std::string>& names, std::size_t characters);
/// Less the phrases that all begin with and those that all end with; a comma, semicolon or colon outside brackets ends
/// a phrase. Equal names stay as they are.
[[nodiscard]] std::vector<std::string> without_what_all_share(std::vector<std::string> names);

/// RFC 4648, section 4.
[[nodiscard]] std::string encode_base64(std::string_view bytes);

/// The chart library, the functions that options name and the behaviour of pages: what pages run.
[[nodiscard]] std::string page_script();
/// The file that holds page_script() beside pages of single charts.
inline constexpr std::string_view kScriptFile = "performance_charts.js";

/// A whole document: `body` inside a page with the style and page_script(). It loads nothing from anywhere, and forbids
/// it.
[[nodiscard]] std::string make_page(std::string_view title, std::string_view body);
/// A <figure> that page.js draws: heading, chart, exact values on demand, notes.
[[nodiscard]] std::string chart_figure(const Chart& chart, int heading_level);
/// A document with one chart. It loads kScriptFile, which lies beside it, and nothing else.
[[nodiscard]] std::string chart_page(const Chart& chart);

}  // namespace headroom
