#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/communicator.hpp"
#include "base/rank_team.hpp"

namespace headroom::cuda {

/// The memory that exchanges pass through.
enum class LinkMemoryKind : std::uint8_t {
  kReceiver,  ///< the receiving GPU's, which the sending one must be able to write
  kHost,      ///< page-locked memory of the host: at the rate of PCIe
};
/// kReceiver if each of these GPUs can write the memory of the others.
[[nodiscard]] LinkMemoryKind best_link_memory(std::span<const int> gpus);
/// Connects the GPUs with these indices, one for each rank of the team. Throws a usage Error for more than 8.
[[nodiscard]] std::vector<std::shared_ptr<Communicator>> connect_gpus(const std::shared_ptr<RankTeam>& team,
                                                                      std::span<const int> gpus, LinkMemoryKind kind);

/// Copies rows on the current device, for a rank alone.
void copy_kept(Stream& stream, const Communicator::Kept& kept);

}  // namespace headroom::cuda
