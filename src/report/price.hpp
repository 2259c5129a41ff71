#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// What a machine costs.
struct Price {
  std::string currency;  ///< as it was given, in front of the number: "$"; may be empty
  double per_hour = 0;

  /// Reads "2.50/h" or "$2.50/h". Throws a usage Error for anything else.
  [[nodiscard]] static Price parse(std::string_view text);
  /// What 1,000 take at so many a second: "$0.694".
  [[nodiscard]] std::string of_thousand(double per_second) const;
  [[nodiscard]] std::string text() const;  ///< "$2.5 an hour"
};

}  // namespace headroom
