#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// Price of machine time.
struct Price {
  std::string currency;  ///< as it was given, before the number: "$"; may be empty
  double per_hour = 0;

  /// Parses "2.50/h" or "$2.50/h". Throws a usage Error for anything else.
  [[nodiscard]] static Price parse(std::string_view text);
  /// Cost of 1,000 units of work that take `ms` each.
  [[nodiscard]] double of_thousand(double ms) const { return per_hour * ms / 3600; }
  [[nodiscard]] std::string label(double cost) const;  ///< "$0.694"
  [[nodiscard]] std::string text() const;              ///< "$2.5 an hour"
};

}  // namespace headroom
