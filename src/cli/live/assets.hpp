#pragma once

#include <string_view>

/// Asset files that are embedded in the program at build time (cmake/live_assets.cmake).
namespace headroom {

[[nodiscard]] std::string_view live_html();  ///< with the placeholder {{token}} for the page's token
[[nodiscard]] std::string_view live_css();
[[nodiscard]] std::string_view live_js();
[[nodiscard]] std::string_view live_icon_svg();

}  // namespace headroom
