#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The items of a comma-separated list, without surrounding blanks. Throws a usage Error for an empty item; `what`
/// names the list in it ("--steps"). A list of only blanks has no items.
[[nodiscard]] std::vector<std::string> split_list(std::string_view list, std::string_view what);

}  // namespace headroom
