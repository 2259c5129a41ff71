#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backends/communicator.hpp"
#include "kernels/core/written_kernel.hpp"

/// Collectives on any device: what each rank sends, receives and keeps. Parts of a dense tensor along an axis are rows
/// at equal distances, so nothing is packed.
namespace headroom {

/// The pieces of all members of a group in scratch memory, to be added up, or of which the largest elements are kept.
struct PieceSum {
  std::vector<std::size_t> pieces;  ///< where each begins in the scratch memory, in the order of the group
  std::size_t elements = 0;         ///< f32, of each piece and of the result
  bool largest = false;
};

/// What a device does itself, submitted to the stream.
struct CollectiveDevice {
  /// For a group of one rank, which needs no communicator.
  void (*keep)(Stream& stream, const Communicator::Kept& kept);
  /// Writes the result 0. The order of the group decides the bits, which are therefore the same on all ranks.
  void (*add_up)(const LaunchArguments& arguments, const PieceSum& sum);
};

[[nodiscard]] KernelPlan plan_all_gather(const KernelBinding& binding, const CollectiveDevice& device);
[[nodiscard]] KernelPlan plan_all_to_all(const KernelBinding& binding, const CollectiveDevice& device);
[[nodiscard]] KernelPlan plan_shift(const KernelBinding& binding, const CollectiveDevice& device);
[[nodiscard]] KernelPlan plan_all_reduce(const KernelBinding& binding, const CollectiveDevice& device);
[[nodiscard]] KernelPlan plan_reduce_scatter(const KernelBinding& binding, const CollectiveDevice& device);

/// Supported where sums of ranks are in f32.
[[nodiscard]] Support supports_sum_of_ranks(const OpSpec& spec);

}  // namespace headroom
