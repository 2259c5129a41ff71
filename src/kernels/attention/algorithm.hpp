#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/attention/attention_problem.hpp"

/// What the ways to run attention on a GPU share: cuDNN's and kernels of ours.
namespace headroom::attentions {

/// Device addresses, all at multiples of 16 bytes but for the last.
struct Operands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  float* logsumexp = nullptr;  ///< null where the problem has none
};

/// A way to run a problem, bound to a device.
struct Algorithm {
  /// What tells it from the others, in every process: "hopper 128 queries x 128 keys, 1 tile a block".
  std::string name;
  std::size_t workspace_bytes = 0;
  /// Submits it to a stream (cudaStream_t).
  std::function<void(void* stream, const Operands& operands, void* workspace)> run;
};

/// Under which the fastest ways are kept: what tells choices from those of other days.
[[nodiscard]] std::string versions();

/// A kernel's plan that runs a way.
[[nodiscard]] KernelPlan bind(Algorithm algorithm);

/// Why no way takes an op: bf16 or f16 in heads of up to `most_dim`, a multiple of 8, with nothing beside the scores.
[[nodiscard]] Support check(const OpSpec& spec, std::int64_t most_dim);

}  // namespace headroom::attentions
