#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipelines/request.hpp"

namespace headroom {

/// Image sizes in comma-separated lists, at least one in all: "512x768" is 512 pixels wide and 768 high, "512" is
/// square, and "own" is the model's own size, returned as {0, 0}. Throws a usage Error that names `option` for
/// anything else, and for a side of less than 1 or more than `high` pixels.
[[nodiscard]] std::vector<ImageSize> parse_sizes(const std::vector<std::string>& lists, std::string_view option,
                                                 std::int64_t high);

/// A size in the format of parse_sizes().
[[nodiscard]] std::string size_text(const ImageSize& size);

}  // namespace headroom
