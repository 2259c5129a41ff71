// linear: y[..., j] = activation(sum_i x[..., i] * weight[j, i] + bias[j]); it declines other epilogues
//
// Shapes     x[..., k], weight[n, k], bias[n] or none -> y[..., n]. Leading axes become one of m rows, or several
//            launches where strides do not let them.
// Dtypes     f32; bf16 with f32 sums and a bias in f32 or bf16, where the CPU has AVX-512. y has the dtype of x.
// Layout     x and y: innermost stride 1. Weights of the checkpoint are packed once into oneDNN's blocks; others stay
//            dense.
// Alignment  that of the dtype.
// Bytes      (m*k + n*k + n + m*n) * size
// FLOPs      2*m*n*k + m*n for the bias + the activation's
//
// Tried: oneDNN's inner_product reaches the same rate as its matmul on packed weights; matmul also takes rows with
// gaps and needs less scratch, so it alone is used. A dense transposed weight is a little slower on large shapes,
// and several times slower on a single row, where copying it into blocks takes longer than the GEMM. If the weight
// is small, and an activation follows, rows are unevenly spaced or rows are many, the GEMM runs in pieces
// (onednn/pieces.hpp).

#include <algorithm>
#include <memory>

#include "kernels/core/support.hpp"
#include "kernels/vendor/onednn/pieces.hpp"
#include "kernels/vendor/onednn/relu.hpp"

namespace headroom {
namespace {

using onednn::GemmEpilogue;
using onednn::LinearProblem;

constexpr std::int64_t kPieceRows = 64;
constexpr std::int64_t kLeastPieceRows = 32;      // two tiles of AMX
constexpr std::int64_t kPieceFlops = 50'000'000;  // of which a call of oneDNN costs less than 5%
constexpr std::int64_t kStagedPieceRows = 128;    // 64 take 3% longer in f32 at n = 768, 256 take 5 to 15%
constexpr std::int64_t kMostStagingBytes = std::int64_t{512} << 10;
constexpr std::int64_t kPiecesOfAThread = 8;                      // at least, where pieces are larger than kPieceRows
constexpr std::int64_t kMostWeightBytes = std::int64_t{1} << 20;  // half of a core's second-level cache on servers

bool is_staged(const LinearProblem& problem) { return problem.activation != Activation::kNone; }

/// Whether pieces are faster: the weight stays in a core's cache, and an activation follows many rows, or the rows
/// fall into several GEMMs, or there are enough rows for threads to share pieces.
bool pieces_pay(const LinearProblem& problem, const RowPlan& rows, int threads) {
  if (problem.n * problem.k * static_cast<std::int64_t>(size_of(problem.dtype)) > kMostWeightBytes) return false;
  if (rows.count() > 1) return true;
  if (is_staged(problem)) return rows.rows.extent >= threads * kLeastPieceRows;
  return threads > 1 && rows.rows.extent >= kPiecesOfAThread * threads * kPieceRows;
}

/// Rows of a piece: fewer where that lets threads share the work evenly, or with a slower core.
std::int64_t piece_rows(const LinearProblem& problem, const RowPlan& plan, int threads) {
  const std::int64_t rows = plan.count() * plan.rows.extent;
  const std::int64_t shared = rows / (kPiecesOfAThread * threads);
  const std::int64_t wanted =
      is_staged(problem)
          ? std::min(kStagedPieceRows, kMostStagingBytes / (problem.n * static_cast<std::int64_t>(sizeof(float))))
          : kPieceFlops / (2 * problem.n * problem.k);
  const std::int64_t least = rows / kPieceRows >= 4 * threads ? kPieceRows : kLeastPieceRows;
  const std::int64_t piece = std::max(least, std::min(wanted, shared) / kPieceRows * kPieceRows);
  return std::min(piece, plan.rows.extent);
}

/// Without an activation the result goes straight into y; else our row kernel adds the bias, takes the activation and
/// rounds once.
KernelPlan plan_in_pieces(const LinearProblem& problem, const RowPlan& rows, int threads) {
  onednn::Pieces pieces{.weight = 1,
                        .end = GemmEpilogue::kActivated,
                        .y_dtype = problem.dtype,
                        .rows = piece_rows(problem, rows, threads),
                        // oneDNN would leave the weight dense for a few rows, and then take a slow path.
                        .layout_rows = kPieceRows};
  if (is_staged(problem)) {
    pieces.end = GemmEpilogue::kAccumulated;
    pieces.is_staged = true;
    const RowFinish finish{.activation = problem.activation,
                           .bias = problem.bias,
                           .y_dtype = problem.dtype,
                           .columns = problem.n,
                           .y_stride = rows.rows.y_stride};
    pieces.finish = [=](const LaunchArguments& arguments, const onednn::Piece& piece) {
      finish_rows(finish, piece.rows, piece.sums, arguments.optional_input(2), piece.y);
    };
  }
  return onednn::plan_pieces(problem, rows, pieces, threads);
}

KernelPlan plan_linear(const KernelBinding& binding) {
  const LinearProblem problem = onednn::linear_problem(binding.spec);
  const RowPlan rows = plan_rows(binding.inputs[0], binding.outputs[0]);
  if (pieces_pay(problem, rows, binding.threads)) return plan_in_pieces(problem, rows, binding.threads);
  const auto gemm = choose_gemm(problem, rows.rows, GemmEpilogue::kActivated);
  const auto call = std::make_shared<const onednn::Call>(gemm, binding.threads);
  const bool has_relu = problem.activation == Activation::kRelu;
  const auto launch = [=, size = static_cast<std::int64_t>(size_of(problem.dtype)),
                       threads = binding.threads](const LaunchArguments& arguments) {
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const RowPlan::Offsets offsets = rows.offsets(i);
      onednn::Call::Operands operands = onednn::operands_of(arguments);
      operands.src = static_cast<const std::byte*>(operands.src) + offsets.x * size;
      operands.dst = static_cast<std::byte*>(operands.dst) + offsets.y * size;
      call->run(operands);
      if (has_relu)
        onednn::relu_in_place(problem.dtype, operands.dst, rows.rows.extent, problem.n, rows.rows.y_stride, threads);
    }
  };
  KernelPlan made{
      .launch = launch, .scratch_bytes = gemm.scratchpad_desc().get_size(), .implementation = gemm.impl_info_str()};
  if (has_relu) made.implementation += " + relu";
  onednn::pack_weight(made, 1, dense_weight(problem), gemm.weights_desc());
  return made;
}

Support supports_linear(const OpSpec& spec, const Target& target) {
  for (const TensorType& input : spec.inputs)
    if (Support rejection = onednn::check_dtype(input.dtype, target)) return rejection;
  if (Support rejection = onednn::check_sizes(spec)) return rejection;
  if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
  return onednn::find_fast_implementation(target, [&] {
    const RowPlan rows = plan_rows(dense_operand(spec.inputs[0]), dense_operand(spec.outputs[0]));
    return choose_gemm(onednn::linear_problem(spec), rows.rows, GemmEpilogue::kActivated);
  });
}

}  // namespace

const Kernel& onednn_linear() {
  static const LibraryKernel kernel({.name = "onednn.linear",
                                     .op = Op::kLinear,
                                     .supports = supports_linear,
                                     .strided = 0b1,
                                     .plan = onednn::planned<plan_linear>});
  return kernel;
}

}  // namespace headroom
