#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "base/tensors/dtype.hpp"
#include "tune/tuner.hpp"

namespace headroom::cublaslt {

/// "cuBLASLt 130100, parts joined in f32, residuals rounded once", or "without cuBLASLt". Choices among algorithms are
/// kept under this text, and are not used under another.
[[nodiscard]] std::string version_text();

/// Applied to the sums before they are stored; the GELU is the tanh form.
enum class Epilogue : std::uint8_t { kNone, kGelu };

/// c[m, n] = epilogue(a[m, k] * b[k, n] + residual[m, n] + bias[n]) in rows, with a[k, m] or b[n, k] if that is
/// transposed; `batch` of them. With scales, a * b is multiplied by a_scale[m] and b_scale[n] first. Innermost
/// strides are 1. The others are in elements, and may be anything where an extent is 1.
struct GemmSpec {
  DType dtype = DType::kF32;  ///< of a and b: f32, bf16, f16, or f8e4m3 (b transposed, k and n multiples of 16)
  bool b_is_f8e5m2 = false;   ///< if a is f8e4m3
  /// of c and bias: that of a; also f32 if a has 16 bits; f32, bf16 or f16 if a is f8e4m3
  DType c_dtype = DType::kF32;
  bool has_scales = false;      ///< f8e4m3 alone
  bool fast_sums = false;       ///< f8e4m3 alone: sums in tensor cores' fewer bits (fast accumulation), not in f32
  bool rounds_to_tf32 = false;  ///< f32 alone: operands on tensor cores, with 10 bits of mantissa
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = true;
  std::int64_t a_row = 0, b_row = 0, c_row = 0;
  std::int64_t batch = 1;
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0;
  bool has_bias = false;
  bool has_residual = false;      ///< of one GEMM, not a batch
  std::int64_t residual_row = 0;  ///< its stride
  Epilogue epilogue = Epilogue::kNone;

  [[nodiscard]] DType b_dtype() const noexcept { return b_is_f8e5m2 ? DType::kF8E5M2 : dtype; }
};

/// All of a spec in one line, equal for equal specs.
[[nodiscard]] std::string to_text(const GemmSpec& spec);

/// Device addresses of the operands of a GEMM; operands that the spec does not have are null.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;  ///< may be c in f32; in 16 bits the library would round the sums before it adds it
  void* c = nullptr;
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
};

/// Whether the GEMM is large enough for the choice of an algorithm to show: 0.2 GFLOP, or 32 MiB of b.
[[nodiscard]] bool is_worth_searching(const GemmSpec& spec);
/// The work that its algorithms are timed on, also given as operands.
[[nodiscard]] tune::Work trial_of(const GemmSpec& spec);
[[nodiscard]] GemmOperands operands_of_trial(const GemmSpec& spec, std::span<void* const> operands);

/// A GEMM on a GPU, with f32 sums. It holds two algorithms: one for operands at multiples of 16 bytes, and one for
/// others that the first cannot take (f8e4m3 has none). If the library's heuristic lists several for a GEMM large
/// enough to matter, the fastest measured here is taken. With NewWork::kTakeOver it is that of the nearest tuned
/// size (other rows), or the heuristic's first: tune/tuner.hpp. For sums of at most eight products of bf16 or f16,
/// no algorithm is taken that rounds before it adds the residual (rounding.hpp). Copies are the same GEMM.
class Gemm {
 public:
  /// For a GPU, the target's backend. Throws Error if the library has no algorithm or is missing.
  Gemm(const GemmSpec& spec, const DeviceTarget& target);
  /// The same, but nothing if the library has no algorithm for the spec.
  [[nodiscard]] static std::optional<Gemm> find(const GemmSpec& spec, const DeviceTarget& target);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// "algorithm 66", "algorithm 66, fastest of 8", or "algorithm 66, taken over from size 4096"
  [[nodiscard]] std::string implementation() const;
  /// Submits the GEMM to a stream (cudaStream_t). Throws Error for f8e4m3 operands off a multiple of 16 bytes.
  void run(void* stream, const GemmOperands& operands, void* workspace) const;

 private:
  class Impl;
  explicit Gemm(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace headroom::cublaslt
