#include <fmt/format.h>

#include <algorithm>

#include "kernels/vendor/cublaslt/gemm.hpp"

namespace headroom::cublaslt {
namespace {

constexpr double kLeastFlops = 2e8;
constexpr std::size_t kLeastWeightBytes = std::size_t{32} << 20;
/// Copies of b are rotated, so that it comes from memory as in a model: more than twice any L2.
constexpr std::size_t kRotatedBytes = std::size_t{160} << 20;

/// Bytes from the first element of `batch` matrices of `rows` rows to the end of the last.
std::size_t span_bytes(DType dtype, std::int64_t rows, std::int64_t length, std::int64_t row, std::int64_t batch,
                       std::int64_t batch_stride) {
  const std::int64_t elements = (batch - 1) * batch_stride + (rows - 1) * row + length;
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

std::size_t b_bytes(const GemmSpec& spec) {
  const std::int64_t rows = spec.transpose_b ? spec.n : spec.k;
  const std::int64_t length = spec.transpose_b ? spec.k : spec.n;
  return span_bytes(spec.b_dtype(), rows, length, spec.b_row, spec.batch, spec.b_batch);
}

std::size_t a_bytes(const GemmSpec& spec) {
  const std::int64_t rows = spec.transpose_a ? spec.k : spec.m;
  const std::int64_t length = spec.transpose_a ? spec.m : spec.k;
  return span_bytes(spec.dtype, rows, length, spec.a_row, spec.batch, spec.a_batch);
}

/// For any number of rows and, in a batched GEMM, for any batch size.
tune::SizeKey size_key_of(const GemmSpec& spec) {
  GemmSpec any = spec;
  any.m = any.a_batch = any.c_batch = 0;
  if (spec.transpose_a) any.a_row = 0;
  any.batch = spec.batch == 1 ? 1 : 0;
  return {.family = to_text(any), .size = spec.batch == 1 ? std::vector{spec.m} : std::vector{spec.batch, spec.m}};
}

}  // namespace

std::string to_text(const GemmSpec& spec) {
  return fmt::format("{}x{}->{} m={}{} n={} k={}{} rows={},{},{} batch={}:{},{},{}{}{}{}{}{}{}", spec.dtype,
                     spec.b_dtype(), spec.c_dtype, spec.m, spec.transpose_a ? "T" : "", spec.n, spec.k,
                     spec.transpose_b ? "T" : "", spec.a_row, spec.b_row, spec.c_row, spec.batch, spec.a_batch,
                     spec.b_batch, spec.c_batch, spec.has_scales ? " scales" : "", spec.fast_sums ? " fast_sums" : "",
                     spec.rounds_to_tf32 ? " tf32" : "", spec.has_bias ? " bias" : "",
                     spec.has_residual ? fmt::format(" residual={}", spec.residual_row) : "",
                     spec.epilogue == Epilogue::kGelu ? " gelu" : "");
}

bool is_worth_searching(const GemmSpec& spec) {
  const double flops = 2.0 * static_cast<double>(spec.batch) * static_cast<double>(spec.m) *
                       static_cast<double>(spec.n) * static_cast<double>(spec.k);
  return flops >= kLeastFlops || b_bytes(spec) >= kLeastWeightBytes;
}

tune::Work trial_of(const GemmSpec& spec) {
  const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); };
  const std::size_t copies = std::clamp<std::size_t>(kRotatedBytes / b_bytes(spec) + 1, 2, 64);
  tune::Work work{.text = to_text(spec),
                  .operands = {{.dtype = spec.dtype, .bytes = a_bytes(spec)},
                               {.dtype = spec.b_dtype(), .bytes = b_bytes(spec), .copies = copies},
                               {.dtype = spec.c_dtype, .bytes = floats(spec.n)},
                               {.dtype = spec.c_dtype,
                                .bytes = span_bytes(spec.c_dtype, spec.m, spec.n, spec.c_row, spec.batch, spec.c_batch),
                                .is_result = true},
                               {.dtype = DType::kF32, .bytes = floats(spec.m)},
                               {.dtype = DType::kF32, .bytes = floats(spec.n)}},
                  .size_key = size_key_of(spec)};
  if (spec.has_residual)
    work.operands.push_back(
        {.dtype = spec.c_dtype, .bytes = span_bytes(spec.c_dtype, spec.m, spec.n, spec.residual_row, 1, 0)});
  return work;
}

GemmOperands operands_of_trial(const GemmSpec& spec, std::span<void* const> operands) {
  return {.a = operands[0],
          .b = operands[1],
          .bias = spec.has_bias ? operands[2] : nullptr,
          .residual = spec.has_residual ? operands[6] : nullptr,
          .c = operands[3],
          .a_scale = static_cast<const float*>(operands[4]),
          .b_scale = static_cast<const float*>(operands[5])};
}

}  // namespace headroom::cublaslt
