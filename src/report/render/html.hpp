#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.hpp"

/// Escaping and documents. All text from results goes into pages and SVG through these functions.
namespace headroom {

/// `text` with & < > " ' as entities: safe between tags and in quoted attributes.
[[nodiscard]] std::string escape_html(std::string_view text);
/// A name from the results, escaped. Its text direction is isolated from the surrounding text, and a name of
/// switches may break after each plus.
[[nodiscard]] std::string name_html(std::string_view name);
/// JSON that is safe inside a <script> element: it has no "<".
[[nodiscard]] std::string script_json(const nlohmann::json& value);
/// `text` in which everything that XML 1.0 cannot hold (control characters, bytes that are not UTF-8) becomes
/// U+FFFD.
[[nodiscard]] std::string clean_xml(std::string_view text);
/// The first `characters` characters of UTF-8 `text`, with an ellipsis if more follow.
[[nodiscard]] std::string cut_text(std::string_view text, std::size_t characters);
/// Shortens each name with cut_text(). If two results would be equal, the middle is cut instead.
[[nodiscard]] std::vector<std::string> cut_names(const std::vector<std::string>& names, std::size_t characters);
/// Removes the phrases that all names begin with and those that all end with. A comma, semicolon or colon outside
/// brackets ends a phrase. Equal names are not changed.
[[nodiscard]] std::vector<std::string> without_what_all_share(std::vector<std::string> names);

/// Base64 as in RFC 4648, section 4.
[[nodiscard]] std::string encode_base64(std::string_view bytes);

/// The script of a page: the chart library, the functions that options name, and the behaviour of pages.
[[nodiscard]] std::string page_script();
/// The file with page_script(), in the same folder as pages of single charts.
inline constexpr std::string_view kScriptFile = "performance_charts.js";

/// A whole document: `body` in a page with the style and page_script(). It loads no external resource, and its
/// policy forbids to.
[[nodiscard]] std::string make_page(std::string_view title, std::string_view body);
/// A <figure> that page.js draws: heading, chart, exact values on demand, notes.
[[nodiscard]] std::string chart_figure(const Chart& chart, int heading_level);
/// A document with one chart. It loads only kScriptFile, from its own folder.
[[nodiscard]] std::string chart_page(const Chart& chart);

}  // namespace headroom
