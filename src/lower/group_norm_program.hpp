#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// What a kernel does for the body of a fused op that is a group norm and what goes in front of it and behind, on channels-last
/// images:
///
///     normed = (x + shift - mean) / sqrt(variance + eps) * weight + bias,  x = concat(parts) along the channels
///     y = activation(normed * (scale + more) + offset)
///
/// so that nothing of it but parts and y is ever in memory. Operands are given by their numbers, -1 where there is none. A second
/// result may be x itself, for others that read it.
struct GroupNormProgram {
  std::vector<int> parts;  ///< one or two: [b, c of its own, h, w]
  int shift = -1;          ///< [b or 1, c, 1, 1]
  int weight = -1;         ///< [c]
  int bias = -1;           ///< [c]
  int scale = -1;          ///< [b or 1, c, 1, 1], as
  int offset = -1;         ///< this, which stands beside it
  double more = 0;
  bool makes_whole = false;  ///< x is the second result
  std::int64_t groups = 1;
  double eps = 0;
  Activation activation = Activation::kNone;
};

/// Of one image; kernels count them in an int.
inline constexpr std::int64_t kMostNormedPixels = std::int64_t{1} << 28;

/// The program of a body, or why it has none, in words that end "... is not fused". Parts and result are of one dtype, f32, bf16
/// or f16, and stored channels-last, their channels in whole packs of 16 bytes (fits_packs() below).
[[nodiscard]] std::variant<GroupNormProgram, std::string> group_norm_program_of(const Graph& body);

/// Whether it is a number for each channel of an image, [b or 1, c, 1, 1] beside [b, c, h, w].
[[nodiscard]] bool is_channel_vector(const Shape& shape, const Shape& image);

/// Pairs of channels that are whole groups and whole packs of 16 bytes, at most: a thread of a block takes one.
inline constexpr std::int64_t kMostNormedPairs = 480;
/// Whether channels in groups of so many, each `bytes` large, are whole packs, groups whole pairs, and the fewest that are groups and
/// packs not too many.
[[nodiscard]] bool fits_packs(std::int64_t channels_of_group, std::int64_t channels, std::size_t bytes);

}  // namespace headroom
