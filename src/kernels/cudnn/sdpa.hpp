#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/dtype.hpp"

namespace headroom::cudnn {

/// o = softmax(scale * q k^T) v for q[b, h, s, d], k[b, h, t, d], v[b, h, t, e] -> o[b, h, s, e]. Strides are in
/// elements, the innermost 1, the others multiples of 8, and addresses are multiples of 16 bytes.
struct SdpaSpec {
  using Strides = std::array<std::int64_t, 4>;
  DType dtype = DType::kBF16;  ///< bf16 or f16
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, dim = 0, value_dim = 0;
  double scale = 1;
  Strides q{}, k{}, v{}, o{};
};

/// Why the library cannot do attention here (not installed, too old), or nothing. Opens it at the first call.
[[nodiscard]] std::optional<std::string> why_unavailable();

/// Attention as one plan of cuDNN: its unified operation, best engine of heuristic A. Making the first plan of a
/// process takes about half a second, others of the same kernel 25 ms (H200).
class Sdpa {
 public:
  /// Throws Error where the library has no engine for it.
  explicit Sdpa(const SdpaSpec& spec);
  ~Sdpa();
  Sdpa(const Sdpa&) = delete;
  Sdpa& operator=(const Sdpa&) = delete;

  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// "cuDNN 9.19.0"
  [[nodiscard]] std::string implementation() const;
  void run(void* stream, const void* q, const void* k, const void* v, void* o, void* workspace) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headroom::cudnn
