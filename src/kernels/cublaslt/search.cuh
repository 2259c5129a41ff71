#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "kernels/cublaslt/product.hpp"

// The heuristic orders its algorithms by a model of the GPU. At FLUX's shapes in bf16 the fastest of its first eight is
// 0 to 13% faster than its first (docs/gpu_facts.md), so a product large enough to matter is measured once, on buffers
// of its real size, and the choice kept on disk.

namespace headroom::cublaslt {

/// One way of the library to run a product.
struct Candidate {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes = 0;
};

/// Whether the product is large enough for the choice to show: 2 GFLOP, or 32 MiB of b.
[[nodiscard]] bool is_worth_searching(const ProductSpec& spec);

/// The bytes of workspace that an algorithm needs for this product, or nothing where it does not run it.
using RunsHere = std::function<std::optional<std::size_t>(const cublasLtMatmulAlgo_t&)>;
using LaunchCandidate = std::function<void(cudaStream_t, const ProductOperands&, const Candidate&, void* workspace)>;

struct Choice {
  Candidate candidate;
  bool is_measured = false;  ///< here or before; else it is the heuristic's first
};

/// The fastest of the candidates: the one kept on disk for this product on this machine, or the fastest measured now,
/// which is then kept. The first stays unless another is 2% faster, or where there is no memory to measure with.
/// Nothing where the library refuses to launch any.
[[nodiscard]] std::optional<Choice> find_fastest(const ProductSpec& spec, std::span<const Candidate> candidates,
                                                 const RunsHere& runs_here, const LaunchCandidate& launch);

}  // namespace headroom::cublaslt
