#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headroom::tune {

/// What work has in common with other work, and the size in which alone it differs from that: a convolution of the same weight, say, over
/// another image. What is fastest for the one is seldom far from it for the other.
struct SizeKey {
  std::string family = {};  ///< all that a choice depends on but sizes, in one line; empty where there is no kin
  std::vector<std::int64_t> size = {};  ///< above 0
};

/// What was measured to be the fastest for work of one kin.
struct TunedSize {
  std::string algorithm;
  std::vector<std::int64_t> size;
  friend bool operator==(const TunedSize&, const TunedSize&) = default;
};

/// How far one size is from another: by which factors, all together, as a logarithm. Infinite where they do not have as many numbers.
[[nodiscard]] double distance(std::span<const std::int64_t> size, std::span<const std::int64_t> other);

/// Those that can be compared with `size`, the nearest first; of two equally near the smaller.
[[nodiscard]] std::vector<TunedSize> nearest_first(std::vector<TunedSize> tuned, std::span<const std::int64_t> size);

/// What a way's name says of where it was found: ", taken over from size 1x64x64".
[[nodiscard]] std::string taken_over_from(std::span<const std::int64_t> size);

}  // namespace headroom::tune
