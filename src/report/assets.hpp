#pragma once

#include <string_view>

/// Files that became part of the program when it was built (cmake/report_assets.cmake).
namespace headroom {

[[nodiscard]] std::string_view echarts_js();  ///< the chart library, minified; runs in a browser and in ScriptEngine
[[nodiscard]] std::string_view charts_js();   ///< what options name: colours and functions, in ES5
[[nodiscard]] std::string_view page_js();     ///< behaviour of a page; browsers only
[[nodiscard]] std::string_view page_css();

}  // namespace headroom
