#pragma once

#include <string_view>

/// Quantities with units, as people write them in options. All throw a usage Error that names `option` and what was
/// expected.
namespace headroom {

/// A share: "5%" or "0.05" is 0.05. Over 0 and below 1; a bare "5" is refused, because it might be either.
[[nodiscard]] double parse_share(std::string_view text, std::string_view option);

/// A budget for one piece of work in milliseconds: a latency ("40ms", "1.5s", "800us") or a rate ("25fps", "25/s").
[[nodiscard]] double parse_budget_ms(std::string_view text, std::string_view option);

}  // namespace headroom
