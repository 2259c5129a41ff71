#pragma once

#include <string_view>

/// Files that became part of the program when it was built (cmake/live_assets.cmake).
namespace headroom {

[[nodiscard]] std::string_view live_html();  ///< with {{token}} where the page's token goes
[[nodiscard]] std::string_view live_css();
[[nodiscard]] std::string_view live_js();
[[nodiscard]] std::string_view live_icon_svg();

}  // namespace headroom
