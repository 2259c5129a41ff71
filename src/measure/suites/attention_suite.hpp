#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backends/backend.hpp"
#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

struct AttentionBenchOptions {
  std::vector<std::int64_t> tokens = {16384};
  std::int64_t heads = 16, head_dim = 128;
  bool causal = false;
  int ranks = 1;   ///< with more than one, each length is also measured on one
  int trials = 6;  ///< the fewest that have an interval
};

/// Times attention over whole sequences on one rank and on several, alternately (run/ring_attention.hpp): bf16 where
/// the device has units for it, f32 elsewhere. Each result has the series "attention" and the memory that rank 0
/// holds. Calls `on_progress` before each length, with its number. Throws OutOfMemory, and what Ranks throws.
[[nodiscard]] ResultFile bench_attention(Backend& backend, const AttentionBenchOptions& options,
                                         const std::function<void(std::int64_t done)>& on_progress = {});

/// Times, rates per rank compared with one rank's, and memory compared with that of stored scores.
[[nodiscard]] Printout to_attention_table(const ResultFile& file);

}  // namespace headroom
