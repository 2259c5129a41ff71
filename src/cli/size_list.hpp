#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipelines/request.hpp"

namespace headroom {

/// Sizes of images in lists separated by commas, at least one in all: "512x768" is 512 pixels wide and 768 high,
/// "512" is square, and "own" stands for the model's own, which is {0, 0}. Throws a usage Error that names `option`
/// for anything else, and for a side of less than 1 or more than `high` pixels.
[[nodiscard]] std::vector<ImageSize> parse_sizes(const std::vector<std::string>& lists, std::string_view option,
                                                 std::int64_t high);

/// A size as parse_sizes() reads it.
[[nodiscard]] std::string size_text(const ImageSize& size);

}  // namespace headroom
