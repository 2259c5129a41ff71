#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "backends/backend.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"

namespace headroom::cublaslt {

/// Finds the algorithms that round twice: they round sums to 16 bits before they add the residual or the bias, or
/// after one of the two. Backend::context. Thread-safe.
class RoundingTrials {
 public:
  /// Submits the GEMM to a stream (cudaStream_t); throws Error where the library refuses.
  using Launch = std::function<void(void* stream, const GemmOperands& operands, void* workspace)>;

  explicit RoundingTrials(Backend& backend) : backend_(backend) {}

  /// Whether the algorithm of that name rounds results of the GEMM once, as tried on the device, once for each GEMM and
  /// algorithm. False if the launch is refused, true if there is no memory for the trial. The GEMM is of bf16 or f16
  /// with results of the same dtype and a residual, and has no activation.
  [[nodiscard]] bool rounds_once(const GemmSpec& spec, const std::string& algorithm, std::size_t workspace_bytes,
                                 const Launch& launch);

 private:
  [[nodiscard]] bool run(const GemmSpec& spec, std::size_t workspace_bytes, const Launch& launch);

  Backend& backend_;
  std::mutex mutex_;
  std::map<std::string, bool> known_;
};

}  // namespace headroom::cublaslt
