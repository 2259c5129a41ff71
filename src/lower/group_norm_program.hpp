#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// The program of a fused op whose body is a group norm with ops before and after it, on channels-last images:
///
///     normed = (x + shift - mean) / sqrt(variance + eps) * weight + bias,  x = concat(parts) along the channels
///     y = activation(normed * (scale + more) + offset)
///
/// Only parts and y are in memory. Operands are given by number, -1 if absent. A second result may be x itself, for
/// other readers.
struct GroupNormProgram {
  std::vector<int> parts;  ///< one or two: [b, c, h, w], each with its own c
  int shift = -1;          ///< [b or 1, c, 1, 1]
  int weight = -1;         ///< [c]
  int bias = -1;           ///< [c]
  int scale = -1;          ///< [b or 1, c, 1, 1]; the factor is scale + more
  int offset = -1;         ///< [b or 1, c, 1, 1]
  double more = 0;
  bool makes_whole = false;  ///< the second result is x
  std::int64_t groups = 1;
  double eps = 0;
  Activation activation = Activation::kNone;
};

/// The program of a body, or the reason why it has none, a phrase that ends "... is not fused". Parts and result
/// share one dtype, f32, bf16 or f16, are channels-last, and their channels fill whole packs of 16 bytes
/// (fits_packs() below).
[[nodiscard]] std::variant<GroupNormProgram, std::string> group_norm_program_of(const Graph& body);

/// Whether `shape` is a per-channel vector of an image: [b or 1, c, 1, 1] for [b, c, h, w].
[[nodiscard]] bool is_channel_vector(const Shape& shape, const Shape& image);

/// Whether channels of `bytes` each fill whole packs, and groups consist of whole pairs.
[[nodiscard]] bool fits_packs(std::int64_t channels_of_group, std::int64_t channels, std::size_t bytes);
/// The channel pairs in the shortest run of channels that ends with a group and with a pack of 16 bytes.
[[nodiscard]] std::int64_t pairs_of_run(std::int64_t channels_of_group, std::size_t bytes);

}  // namespace headroom
