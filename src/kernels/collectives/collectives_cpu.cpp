// all_gather, reduce_scatter, all_reduce, all_to_all, shift between ranks that are threads of one process
//
// Dtypes     any that is moved; f32 for sums and maxima, in double in the order of the group, so that all ranks get the
//            same bits.
// Strides    dense.
// Bytes      a rank's operand read and its result written once; pieces of sums pass through scratch memory.
//
// The ranks copy from each other's memory (backends/communicator.hpp).

#include <cmath>

#include "base/rank_team.hpp"
#include "kernels/collectives/collectives.hpp"
#include "kernels/core/cpu_kernel.hpp"

namespace headroom {
namespace {

void keep(Stream& /*stream*/, const Communicator::Kept& kept) {
  const auto& [from, to] = kept;
  copy_rows({from.at.address<const std::byte>(), from.rows, from.row_bytes, from.pitch},
            {to.at.address<std::byte>(), to.rows, to.row_bytes, to.pitch});
}

/// The larger number; NaN if one is NaN.
double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

void add_up(const LaunchArguments& arguments, const PieceSum& sum) {
  auto* y = arguments.output<float>(0);
  for (std::size_t i = 0; i < sum.elements; ++i) {
    const auto at = [&](std::size_t member) {
      return static_cast<double>((arguments.scratch + sum.pieces[member]).address<const float>()[i]);
    };
    double value = at(0);
    for (std::size_t member = 1; member < sum.pieces.size(); ++member)
      value = sum.largest ? larger(value, at(member)) : value + at(member);
    y[i] = static_cast<float>(value);
  }
}

template <KernelPlan (*kPlan)(const KernelBinding&, const CollectiveDevice&)>
CpuKernel collective(std::string_view name, Op op, Support (*supports)(const OpSpec&)) {
  return CpuKernel(
      {.name = name,
       .op = op,
       .supports = supports,
       .strides = StrideRule::kDense,
       .plan = [](const KernelBinding& binding) { return kPlan(binding, {.keep = keep, .add_up = add_up}); }});
}

}  // namespace

std::span<const CpuKernel> plain_collectives() {
  static const CpuKernel kernels[] = {
      collective<plan_all_gather>("plain.all_gather", Op::kAllGather, supports_row_major),
      collective<plan_reduce_scatter>("plain.reduce_scatter", Op::kReduceScatter, supports_sum_of_ranks),
      collective<plan_all_reduce>("plain.all_reduce", Op::kAllReduce, supports_sum_of_ranks),
      collective<plan_all_to_all>("plain.all_to_all", Op::kAllToAll, supports_row_major),
      collective<plan_shift>("plain.shift", Op::kShift, supports_row_major),
  };
  return kernels;
}

}  // namespace headroom
