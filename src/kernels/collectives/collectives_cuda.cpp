// all_gather, reduce_scatter, all_reduce, all_to_all, shift between ranks on GPUs of one process
//
// Dtypes     any that is moved; f32 for sums and maxima, in double in the order of the group, so that all ranks get the
//            same bits.
// Strides    dense.
// Bytes      a rank's operand read and its result written once, what travels also once into slots of the receiver and
//            out of them (backends/cuda/exchange.cuh); pieces of sums pass through scratch memory.

#include "backends/cuda/communicator.cuh"
#include "kernels/collectives/collectives.hpp"
#include "kernels/collectives/sum_pieces_cuda.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

void add_up(const LaunchArguments& arguments, const PieceSum& sum) {
  cuda::Pieces pieces{.count = static_cast<int>(sum.pieces.size())};
  HR_CHECK_LE(sum.pieces.size(), cuda::kMostPieces);
  for (std::size_t i = 0; i < sum.pieces.size(); ++i)
    pieces.at[i] = (arguments.scratch + sum.pieces[i]).address<const float>();
  cuda::sum_pieces(arguments.stream.native_handle(), pieces, static_cast<std::int64_t>(sum.elements), sum.largest,
                   arguments.output<float>(0));
}

template <KernelPlan (*kPlan)(const KernelBinding&, const CollectiveDevice&)>
cuda::CudaKernel collective(std::string_view name, Op op, Support (*supports)(const OpSpec&)) {
  return cuda::CudaKernel({.name = name,
                           .op = op,
                           .supports = supports,
                           .strides = StrideRule::kDense,
                           .plan = [](const KernelBinding& binding) {
                             return kPlan(binding, {.keep = cuda::copy_kept, .add_up = add_up});
                           }});
}

}  // namespace

std::span<const cuda::CudaKernel> cuda_collectives() {
  static const cuda::CudaKernel kernels[] = {
      collective<plan_all_gather>("cuda.all_gather", Op::kAllGather, supports_row_major),
      collective<plan_reduce_scatter>("cuda.reduce_scatter", Op::kReduceScatter, supports_sum_of_ranks),
      collective<plan_all_reduce>("cuda.all_reduce", Op::kAllReduce, supports_sum_of_ranks),
      collective<plan_all_to_all>("cuda.all_to_all", Op::kAllToAll, supports_row_major),
      collective<plan_shift>("cuda.shift", Op::kShift, supports_row_major),
  };
  return kernels;
}

}  // namespace headroom
