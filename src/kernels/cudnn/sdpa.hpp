#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "kernels/attention_problem.hpp"

namespace headroom::cudnn {

/// Why the library cannot do attention here (not installed, too old), or nothing. Opens it at the first call.
[[nodiscard]] std::optional<std::string> why_unavailable();

/// Attention in bf16 or f16, without what stands beside scores, as one plan of cuDNN: its unified operation, best engine of
/// heuristic A. Strides are multiples of 8 elements, and addresses of 16 bytes. Making the first plan of a
/// process takes about half a second, others of the same kernel 25 ms (H200).
class Sdpa {
 public:
  /// Throws Error where the library has no engine for it.
  Sdpa(const AttentionProblem& problem, Backend& backend);
  ~Sdpa();
  Sdpa(const Sdpa&) = delete;
  Sdpa& operator=(const Sdpa&) = delete;

  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// "cuDNN 9.19.0"
  [[nodiscard]] std::string implementation() const;
  struct Operands {
    const void *q, *k, *v, *o;
    const void* logsumexp;  ///< null where the problem has none
    friend bool operator==(const Operands&, const Operands&) = default;
  };
  void run(void* stream, const Operands& operands, void* workspace) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headroom::cudnn
