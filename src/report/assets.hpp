#pragma once

#include <string_view>

/// Asset files that are embedded in the program at build time (cmake/report_assets.cmake).
namespace headroom {

[[nodiscard]] std::string_view echarts_js();  ///< the chart library, minified, for browsers
/// The chart library with its long names, for ScriptEngine. Duktape's hash maps names of two letters to few slots, and
/// takes longer to draw with them.
[[nodiscard]] std::string_view echarts_long_names_js();
[[nodiscard]] std::string_view charts_js();  ///< colours and functions that options refer to, in ES5
[[nodiscard]] std::string_view page_js();    ///< behaviour of a page; browsers only
[[nodiscard]] std::string_view page_css();

}  // namespace headroom
