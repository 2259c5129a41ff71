#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.hpp"

namespace headroom {

/// The share by which FP8 tensor cores make a sum of `length` positive products too small where they add up in fewer bits than
/// f32's: what is cut off always lowers such a sum. Interpolated between what an H200 showed for lengths of 128 to 15360, constant
/// outside them; some algorithms of cuBLASLt add up parts and lose less. Sums of numbers of both signs lose far less.
/// Source: docs/gpu_facts.md, FP8 sums.
[[nodiscard]] double loss_of_positive_sum(std::int64_t length);

/// Whether a value's elements cannot be negative: results of relu, softmax, sigmoid, exp, squares and the like, and what only
/// moves, casts or joins these.
[[nodiscard]] bool is_never_negative(const Graph& graph, ValueId value);

/// What a product in FP8 over x[..., k] loses by fast sums, in a sentence; empty where that hardly matters.
[[nodiscard]] std::string loss_of_fast_sums(const Graph& graph, ValueId x);

}  // namespace headroom
