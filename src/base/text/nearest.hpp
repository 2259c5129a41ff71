#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// How an unknown name is compared with the known ones.
enum class Likeness : std::uint8_t {
  kWhole,  ///< as a typing error, or as the beginning of a name
  kPart,   ///< as a filter: similar to some part of a name
};

/// The names of `known` that `given` probably meant, the nearest first, at most three. The distance counts wrong,
/// missing, extra or exchanged letters (optimal string alignment), ignoring case. Empty if the nearest differs in
/// more than a third of the letters.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view given, std::span<const std::string> known,
                                                     Likeness likeness = Likeness::kWhole);

/// The end of a sentence about an unknown name: "; did you mean 'flash'?", or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view given, std::span<const std::string> known,
                                       Likeness likeness = Likeness::kWhole);

}  // namespace headroom
