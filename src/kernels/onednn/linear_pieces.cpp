#include "kernels/onednn/linear_pieces.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/parallel.hpp"

namespace headroom::onednn {
namespace {

constexpr std::int64_t kPieceRows = 64;
constexpr std::int64_t kLeastPieceRows = 32;      // two tiles of AMX
constexpr std::int64_t kPieceFlops = 50'000'000;  // of which a call of oneDNN costs less than 5%
constexpr std::int64_t kStagedPieceRows = 128;    // 64 take 3% longer in f32 at n = 768, 256 take 5 to 15%
constexpr std::int64_t kMostStagingBytes = std::int64_t{512} << 10;
constexpr std::int64_t kPiecesOfAThread = 8;                      // at least, where pieces are larger than kPieceRows
constexpr std::int64_t kMostWeightBytes = std::int64_t{1} << 20;  // half of a core's second-level cache on servers
constexpr std::size_t kCacheLine = 64;

std::size_t round_up(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

bool is_staged(const LinearProblem& problem) { return problem.activation != Activation::kNone; }

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

class PiecewiseLinear final : public PreparedKernel {
 public:
  PiecewiseLinear(const LinearProblem& problem, RowPlan plan, int threads)
      : problem_(problem),
        plan_(std::move(plan)),
        threads_(threads),
        staged_(is_staged(problem)),
        finish_{.activation = problem.activation,
                .bias = problem.bias,
                .y_dtype = problem.dtype,
                .columns = problem.n,
                .y_stride = plan_.rows.y_stride},
        rows_(piece_rows(problem_, plan_, threads)),
        pieces_((plan_.rows.extent + rows_ - 1) / rows_) {
    const TeamSize alone(1);
    // oneDNN would leave the weight dense for a few rows, and then take a slow path.
    weight_ = choose_product(problem_, piece(kPieceRows), end()).weights_desc();
    const auto product = make_product(problem_, piece(rows_), end(), weight_);
    if (weight_ != dense_weight(problem_)) packed_.push_back({1, layout_name(weight_), weight_.get_size()});
    implementation_ = product.impl_info_str();
    for (int thread = 0; thread < threads_; ++thread) calls_.push_back(bind(product));
    product_scratch_bytes_ = round_up(product.scratchpad_desc().get_size());
    if (const std::int64_t rest = plan_.rows.extent % rows_; rest != 0) {
      const auto shorter = make_product(problem_, piece(rest), end(), weight_);
      for (int thread = 0; thread < threads_; ++thread) last_calls_.push_back(bind(shorter));
      product_scratch_bytes_ = std::max(product_scratch_bytes_, round_up(shorter.scratchpad_desc().get_size()));
    }
    if (staged_) staging_bytes_ = round_up(static_cast<std::size_t>(rows_ * problem_.n) * sizeof(float));
  }

  [[nodiscard]] std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(threads_) * (product_scratch_bytes_ + staging_bytes_);
  }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
  [[nodiscard]] std::string implementation() const override { return implementation_; }

  void pack(Stream& /*stream*/, std::size_t index, const void* dense, void* packed) const override {
    HR_CHECK_LT(index, packed_.size());
    checked("onednn.linear", [&] { convert_layout(dense_weight(problem_), dense, weight_, packed); });
  }

  void launch(const LaunchArguments& arguments) const override {
    parallel_for(threads_, plan_.count() * pieces_, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) make_piece(arguments, i, static_cast<std::size_t>(thread));
    });
  }

 private:
  [[nodiscard]] ProductEnd end() const { return staged_ ? ProductEnd::kAccumulated : ProductEnd::kActivated; }
  [[nodiscard]] RowAxis piece(std::int64_t rows) const {
    return {rows, plan_.rows.x_stride, staged_ ? problem_.n : plan_.rows.y_stride};
  }

  static std::unique_ptr<Call> bind(const dnnl::matmul::primitive_desc& product) {
    return std::make_unique<Call>(
        dnnl::matmul(product), 1,
        std::initializer_list<std::pair<int, dnnl::memory::desc>>{{DNNL_ARG_SRC, product.src_desc()},
                                                                  {DNNL_ARG_WEIGHTS, product.weights_desc()},
                                                                  {DNNL_ARG_BIAS, product.bias_desc()},
                                                                  {DNNL_ARG_DST, product.dst_desc()},
                                                                  {DNNL_ARG_SCRATCHPAD, product.scratchpad_desc()}});
  }

  void make_piece(const LaunchArguments& arguments, std::int64_t i, std::size_t thread) const {
    const RowPlan::Offsets offsets = plan_.offsets(i / pieces_);
    const std::int64_t first = i % pieces_ * rows_;
    const std::int64_t rows = std::min(rows_, plan_.rows.extent - first);
    const auto size = static_cast<std::int64_t>(size_of(problem_.dtype));
    std::byte* const scratch =
        static_cast<std::byte*>(arguments.scratch) + thread * (product_scratch_bytes_ + staging_bytes_);
    std::byte* const y =
        static_cast<std::byte*>(arguments.outputs[0]) + (offsets.y + first * plan_.rows.y_stride) * size;
    std::byte* const staging = scratch + product_scratch_bytes_;
    const void* const bias = problem_.bias ? arguments.inputs[2] : nullptr;
    const Call& call = rows == rows_ ? *calls_[thread] : *last_calls_[thread];
    call.run({{DNNL_ARG_SRC,
               static_cast<const std::byte*>(arguments.inputs[0]) + (offsets.x + first * plan_.rows.x_stride) * size},
              {DNNL_ARG_WEIGHTS, arguments.inputs[1]},
              {DNNL_ARG_BIAS, bias},
              {DNNL_ARG_DST, staged_ ? staging : y},
              {DNNL_ARG_SCRATCHPAD, scratch}});
    if (staged_) finish_rows(finish_, rows, reinterpret_cast<const float*>(staging), bias, y);
  }

  LinearProblem problem_;
  RowPlan plan_;
  int threads_;
  bool staged_;          // an activation follows, so sums go through scratch
  RowFinish finish_;     // what is done to them there
  std::int64_t rows_;    // of a piece
  std::int64_t pieces_;  // of each product; the last may have fewer rows
  dnnl::memory::desc weight_;
  std::vector<PackedWeight> packed_;
  std::string implementation_;
  std::vector<std::unique_ptr<Call>> calls_;       // by thread
  std::vector<std::unique_ptr<Call>> last_calls_;  // for the shorter piece, where there is one
  std::size_t product_scratch_bytes_ = 0;          // of each thread
  std::size_t staging_bytes_ = 0;
};

}  // namespace

bool piecewise_pays(const LinearProblem& problem, const RowPlan& rows, int threads) {
  if (problem.n * problem.k * static_cast<std::int64_t>(size_of(problem.dtype)) > kMostWeightBytes) return false;
  if (rows.count() > 1) return true;
  if (is_staged(problem)) return rows.rows.extent >= threads * kLeastPieceRows;
  return threads > 1 && rows.rows.extent >= kPiecesOfAThread * threads * kPieceRows;
}

std::unique_ptr<PreparedKernel> prepare_piecewise_linear(const LinearProblem& problem, const RowPlan& rows,
                                                         int threads) {
  return std::make_unique<PiecewiseLinear>(problem, rows, threads);
}

}  // namespace headroom::onednn
