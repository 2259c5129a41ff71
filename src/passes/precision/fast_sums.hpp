#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"
#include "passes/pass.hpp"

namespace headroom {

/// The fraction by which FP8 tensor cores underestimate a sum of `length` positive terms if they accumulate in fewer
/// bits than f32: truncation always lowers such a sum. The values are interpolated between measurements on an H200
/// for lengths from 128 to 15360, and constant outside. Some algorithms of cuBLASLt sum in parts and lose less. Sums
/// of terms of both signs lose far less. Source: docs/gpu_facts.md, FP8 sums.
[[nodiscard]] double loss_of_positive_sum(std::int64_t length);

/// A sentence on the loss of an FP8 matmul over x[..., k] from fast accumulation; empty if the loss hardly matters.
/// `producers` are find_producers(graph).
[[nodiscard]] std::string loss_of_fast_sums(const Graph& graph, const std::vector<int>& producers, ValueId x);

/// The switch that sums in f32 what the record of the pass `fp8` notes as lossy, and all else as before:
/// "fp8=exact:modules=^(blocks.[0-9]+.ff.net.2)$". The first number of a path, that of a block, is left open.
/// `argument` is that of the switch in this record. "fp8=exact" if one modules= cannot select these: modules were
/// chosen by fp8=fast:modules=, the expression is too long for a switch, or a node has no path. Empty if nothing is
/// lossy.
[[nodiscard]] std::string switch_to_exact_sums(const PassRecord& fp8, std::string_view argument);

}  // namespace headroom
