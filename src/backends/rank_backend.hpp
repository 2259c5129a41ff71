#pragma once

#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "backends/communicator.hpp"
#include "base/rank_team.hpp"

namespace headroom {

/// An additional interface of backends whose device is one of several in the machine, one for each rank of a request.
class RankBackend {
 public:
  virtual ~RankBackend() = default;
  /// The backend of a rank's device: this one for rank 0, for others one that is opened at the first call and lives as
  /// long as this one. The current device of the calling thread stays. Throws a usage Error if there are too few.
  [[nodiscard]] virtual Backend& backend_of_rank(int rank) = 0;
  /// Connects the devices of all ranks of the team. Throws a usage Error if there are too many.
  [[nodiscard]] virtual std::vector<std::shared_ptr<Communicator>> connect(const std::shared_ptr<RankTeam>& team) = 0;
};

}  // namespace headroom
