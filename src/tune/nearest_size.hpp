#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headroom::tune {

/// A key that relates work of different sizes: work of one family differs only in its size, for example convolutions
/// of the same weight over different images. The fastest algorithm for one size is usually close to the fastest for
/// another.
struct SizeKey {
  std::string family = {};              ///< all that a choice depends on except sizes, in one line; empty: no family
  std::vector<std::int64_t> size = {};  ///< above 0
};

/// The algorithm measured to be the fastest for one size of a family.
struct TunedSize {
  std::string algorithm;
  std::vector<std::int64_t> size;
  friend bool operator==(const TunedSize&, const TunedSize&) = default;
};

/// The distance of two sizes: the sum over the dimensions of the absolute logarithm of their ratio. Infinite if
/// their ranks differ.
[[nodiscard]] double distance(std::span<const std::int64_t> size, std::span<const std::int64_t> other);

/// The entries that can be compared with `size`, the nearest first; of two equally near ones, the smaller first.
[[nodiscard]] std::vector<TunedSize> nearest_first(std::vector<TunedSize> tuned, std::span<const std::int64_t> size);

/// The suffix of the name of an algorithm that was found at another size: ", taken over from size 1x64x64".
[[nodiscard]] std::string taken_over_from(std::span<const std::int64_t> size);

}  // namespace headroom::tune
