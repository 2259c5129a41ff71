// scaled_linear: y[..., j] = epilogue((sum_i xq[..., i] * wq[j, i]) * x_scale[...] * w_scale[j] + bias[j])
//
// Shapes     xq[..., k], x_scale[...], wq[n, k], w_scale[n], bias[n] or none -> y[..., n]
// Epilogue   an activation; it declines others.
// Dtypes     xq, wq i8; scales and bias f32; y f32 or bf16. Products add up in i32 without rounding.
// Layout     inputs dense; y innermost stride 1. Weights of the checkpoint are packed once into oneDNN's blocks, with
//            the sums over columns that VNNI needs to multiply signed bytes; others stay dense.
// Alignment  that of the dtype.
// Bytes      m*k + n*k + 4*(m + 2*n) + m*n * size
// FLOPs      2*m*n*k + 3*m*n + the activation's; the products on the int8 unit
//
// Each thread takes pieces of at most 128 rows. oneDNN, on one thread, writes the GEMM's result as f32 into a piece
// that stays in its cache; our row kernel scales it in place (dense f32) or from there into y. (If the rows of a
// result have gaps, oneDNN 2.6 leaves its int8 kernels for a slow one.)
//
// Tried, on two cores with VNNI, m = 5120, n = 576, k = 192, where fp32 takes 2.93 ms: the bare GEMM 0.92 ms; all of
// it, then the scaling, 1.24 ms; by pieces of 64 to 256 rows 1.06 to 1.12 ms. oneDNN 2.6 applies a per-column scale
// at no cost. A per-row scale (a binary post-op with [m, 1]) drops to its reference, hundreds of times slower.
// Unsigned activations with a zero point save 12% of the GEMM (no detour for the sign). They would need another pass
// over q on every CPU that has AMX, where signed bytes are native.

#include <algorithm>

#include "kernels/core/parallel.hpp"
#include "kernels/core/support.hpp"
#include "kernels/matmul/activation_rows.hpp"
#include "kernels/vendor/onednn/pieces.hpp"

namespace headroom {
namespace {

using onednn::GemmEpilogue;
using onednn::LinearProblem;

constexpr std::int64_t kMostPieceRows = 128;  // of a piece

LinearProblem problem_of(const OpSpec& spec) {
  return {.dtype = DType::kI8,
          .n = spec.input(Role::kWeight).shape[0],
          .k = spec.input(Role::kWeight).shape[1],
          .bias = std::nullopt,
          .activation = Activation::kNone,
          .pack = spec.has_weight_at(2)};
}

/// The innermost evenly spaced rows of y, whose scales are contiguous.
RowPlan plan_rows_in_order(const Operand& x, const Operand& y) { return plan_rows(x, y, 1); }

/// Rows of a piece: few enough to stay in cache, and enough pieces for every thread.
std::int64_t scaled_piece_rows(const RowPlan& plan, int threads) {
  const std::int64_t for_each_thread = divide_up(plan.rows.extent * plan.count(), threads);
  return std::clamp<std::int64_t>(for_each_thread, 1, std::min(kMostPieceRows, plan.rows.extent));
}

Support supports_scaled_linear(const OpSpec& spec, const Target& target) {
  if (target.cpu_isa < CpuIsa::kAvx512Vnni)
    return Rejection{fmt::format("int8 products need AVX-512 VNNI or AMX; this CPU has {}", name_of(target.cpu_isa))};
  if (Support rejection = check_scaled_linear(spec)) return rejection;
  if (Support rejection = onednn::check_sizes(spec)) return rejection;
  const LinearProblem problem = problem_of(spec);
  const RowPlan plan = plan_rows_in_order(dense_operand(spec.inputs[0]), dense_operand(spec.outputs[0]));
  const std::int64_t whole = scaled_piece_rows(plan, target.threads), rest = plan.rows.extent % whole;
  const onednn::TeamSize alone(1);
  return onednn::checked("onednn.scaled_linear", [&]() -> Support {
    const auto rows_of = [&](std::int64_t rows) { return RowAxis{rows, problem.k, problem.n}; };
    const auto weight = choose_gemm(problem, rows_of(whole), GemmEpilogue::kAccumulated).weights_desc();
    for (const std::int64_t rows : {whole, rest == 0 ? whole : rest}) {
      const auto gemm = make_gemm(problem, rows_of(rows), GemmEpilogue::kAccumulated, weight);
      if (const std::string implementation = gemm.impl_info_str(); !implementation.starts_with("brg:"))
        return Rejection{fmt::format("oneDNN has only {} for this product", implementation)};
    }
    return std::nullopt;
  });
}

KernelPlan plan_scaled_linear(const KernelBinding& binding) {
  const LinearProblem problem = problem_of(binding.spec);
  const Operand& y = binding.outputs[0];
  const RowPlan rows = plan_rows_in_order(binding.inputs[0], y);
  const RowFinish form{.activation = only_activation_of(binding.spec),
                       .bias = binding.spec.has(Role::kBias) ? std::optional(DType::kF32) : std::nullopt,
                       .y_dtype = y.type.dtype,
                       .columns = problem.n,
                       .y_stride = rows.rows.y_stride};
  const std::int64_t in_piece = scaled_piece_rows(rows, binding.threads);
  const auto finish = [=, k = problem.k](const LaunchArguments& arguments, const onednn::Piece& piece) {
    finish_rows(form, piece.rows, piece.sums, arguments.optional_input(4), piece.y,
                {arguments.input<float>(1) + piece.at.x / k, arguments.input<float>(3)});
  };
  return onednn::plan_pieces(problem, rows,
                             {.weight = 2,
                              .end = GemmEpilogue::kAccumulated,
                              .y_dtype = form.y_dtype,
                              .rows = in_piece,
                              .layout_rows = in_piece,
                              // a multiply-add costs as little as an elementwise op
                              .grain = grain_of(in_piece * problem.n * problem.k / 16),
                              .is_staged = form.y_dtype != DType::kF32 || form.y_stride != problem.n,
                              .finish = finish},
                             binding.threads);
}

}  // namespace

const Kernel& onednn_scaled_linear() {
  static const LibraryKernel kernel({.name = "onednn.scaled_linear",
                                     .op = Op::kScaledLinear,
                                     .supports = supports_scaled_linear,
                                     .plan = onednn::planned<plan_scaled_linear>});
  return kernel;
}

}  // namespace headroom
