#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// Matmuls whose weights are stored and computed alike.
struct MatmulWeights {
  std::string stored;    ///< "bf16", "Q4_K", "f8e4m3 and bf16" of weights that are merged
  std::string computed;  ///< "bf16", "f8e4m3"
  /// The weights are unpacked in every run.
  bool is_packed = false;
  int matmuls = 0;

  /// "57 matmuls with weights in Q4_K, packed, computed in bf16"
  [[nodiscard]] std::string text() const;
};

/// Those of the linears and 8-bit matmuls of a graph, the most frequent first.
[[nodiscard]] std::vector<MatmulWeights> count_matmul_weights(const Graph& graph);

}  // namespace headroom
