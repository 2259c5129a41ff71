#pragma once

#include <string_view>

/// Quantities with units, as given in options. All functions throw a usage Error that names `option` and the
/// expected format.
namespace headroom {

/// A share: "5%" or "0.05" is 0.05. Above 0 and below 1; a bare "5" is refused as ambiguous.
[[nodiscard]] double parse_share(std::string_view text, std::string_view option);

/// A budget for one piece of work in milliseconds: a latency ("40ms", "1.5s", "800us") or a rate ("25fps", "25/s").
[[nodiscard]] double parse_budget_ms(std::string_view text, std::string_view option);

}  // namespace headroom
