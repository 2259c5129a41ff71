#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/communicator.hpp"
#include "base/rank_team.hpp"

namespace headroom::cuda {

/// Connects the GPUs with these indices, one for each rank of the team. Throws Error if one cannot write to the memory
/// of another.
[[nodiscard]] std::vector<std::shared_ptr<Communicator>> connect_gpus(const std::shared_ptr<RankTeam>& team,
                                                                      std::span<const int> gpus);

/// Copies rows on the current device, for a rank alone.
void copy_kept(Stream& stream, const Communicator::Kept& kept);

}  // namespace headroom::cuda
