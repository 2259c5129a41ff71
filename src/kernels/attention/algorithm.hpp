#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/attention/attention_problem.hpp"

/// Types that the algorithms for attention on a GPU share: cuDNN's and Headroom's own kernels.
namespace headroom::attentions {

/// Device addresses, all at multiples of 16 bytes but for the last.
struct Operands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  float* logsumexp = nullptr;  ///< null where the problem has none
  const void* bias = nullptr;  ///< of the scores, or a mask; the same
};

/// An algorithm for a problem, bound to a device.
struct Algorithm {
  /// Identifies it in every process: "hopper 128 queries x 128 keys, 1 tile a block".
  std::string name;
  std::size_t workspace_bytes = 0;
  /// Submits it to a stream (cudaStream_t).
  std::function<void(void* stream, const Operands& operands, void* workspace)> run;
};

/// The versions of libraries and kernels, under which the fastest algorithms are kept: choices of other versions
/// are not used.
[[nodiscard]] std::string versions();

/// A kernel's plan that runs an algorithm.
[[nodiscard]] KernelPlan bind(Algorithm algorithm);

/// Why no algorithm takes an op: bf16 or f16 in heads of up to `most_dim`, a multiple of 8.
[[nodiscard]] Support check(const OpSpec& spec, std::int64_t most_dim);

}  // namespace headroom::attentions
