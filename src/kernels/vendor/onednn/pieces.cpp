#include "kernels/vendor/onednn/pieces.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/core/parallel.hpp"

namespace headroom::onednn {

KernelPlan plan_pieces(const LinearProblem& problem, const RowPlan& plan, const Pieces& pieces, int threads) {
  const TeamSize alone(1);
  const auto rows_of = [&](std::int64_t rows) {
    return RowAxis{rows, plan.rows.x_stride, pieces.is_staged ? problem.n : plan.rows.y_stride};
  };
  const auto weight = choose_gemm(problem, rows_of(pieces.layout_rows), pieces.end).weights_desc();
  KernelPlan made;
  pack_weight(made, pieces.weight, dense_weight(problem), weight);
  std::size_t gemm_bytes = 0;
  const auto bind = [&](std::int64_t rows) {
    const auto gemm = make_gemm(problem, rows_of(rows), pieces.end, weight);
    if (made.implementation.empty()) made.implementation = gemm.impl_info_str();
    gemm_bytes = std::max(gemm_bytes, whole_lines(gemm.scratchpad_desc().get_size()));
    std::vector<std::shared_ptr<const Call>> calls;  // one a thread: a call holds the addresses it runs on
    for (int thread = 0; thread < threads; ++thread) calls.push_back(std::make_shared<const Call>(gemm, 1));
    return calls;
  };
  const auto whole = bind(pieces.rows);
  const std::int64_t rest = plan.rows.extent % pieces.rows;
  const auto last = rest == 0 ? whole : bind(rest);
  const std::size_t staging_bytes =
      pieces.is_staged ? whole_lines(static_cast<std::size_t>(pieces.rows * problem.n) * sizeof(float)) : 0;
  const std::size_t thread_bytes = gemm_bytes + staging_bytes;
  made.scratch_bytes = static_cast<std::size_t>(threads) * thread_bytes;

  const std::int64_t pieces_of_gemm = divide_up(plan.rows.extent, pieces.rows);
  const auto x_size = static_cast<std::int64_t>(size_of(problem.dtype));
  const auto y_size = static_cast<std::int64_t>(size_of(pieces.y_dtype));
  const auto make_piece = [=](const LaunchArguments& arguments, std::int64_t index, std::size_t thread) {
    const RowPlan::Offsets start = plan.offsets(index / pieces_of_gemm);
    const std::int64_t first = index % pieces_of_gemm * pieces.rows;
    const RowPlan::Offsets at{start.x + first * plan.rows.x_stride, start.y + first * plan.rows.y_stride};
    std::byte* const scratch = arguments.scratch_memory<std::byte>() + thread * thread_bytes;
    std::byte* const y = arguments.output<std::byte>(0) + at.y * y_size;
    std::byte* const to = pieces.is_staged ? scratch + gemm_bytes : y;
    const std::int64_t rows = std::min(pieces.rows, plan.rows.extent - first);
    (rows == pieces.rows ? whole : last)[thread]->run(
        {.src = arguments.input<std::byte>(0) + at.x * x_size,
         .weights = arguments.input(static_cast<std::size_t>(pieces.weight)),
         .bias = arguments.optional_input(2),
         .dst = to,
         .scratch = scratch});
    if (pieces.finish) pieces.finish(arguments, {rows, at, reinterpret_cast<float*>(to), y});
  };
  made.launch = [=, count = plan.count() * pieces_of_gemm](const LaunchArguments& arguments) {
    parallel_for(threads, count, pieces.grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) make_piece(arguments, i, static_cast<std::size_t>(thread));
    });
  };
  return made;
}

}  // namespace headroom::onednn
