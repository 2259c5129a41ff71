#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// How a name that is unknown is held against those that are known.
enum class Likeness : std::uint8_t {
  kWhole,  ///< a slip of the keys, or the beginning of a name
  kPart,   ///< what a filter asks for: like some part of a name
};

/// Those of `known` that `given` was probably meant to be, the nearest first, three at most: by letters that are wrong,
/// missing, too many or exchanged (optimal string alignment), upper and lower case being one. Nothing where even the
/// nearest is further off than a third of the letters.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view given, std::span<const std::string> known,
                                                     Likeness likeness = Likeness::kWhole);

/// The end of a sentence about an unknown name: "; did you mean 'flash'?", or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view given, std::span<const std::string> known,
                                       Likeness likeness = Likeness::kWhole);

}  // namespace headroom
