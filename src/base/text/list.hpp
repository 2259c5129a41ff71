#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The items of a list separated by commas, without the blanks around them. Throws a usage Error for an item that is
/// empty; `what` names the list there ("--steps"). A list of blanks alone has no items.
[[nodiscard]] std::vector<std::string> split_list(std::string_view list, std::string_view what);

}  // namespace headroom
