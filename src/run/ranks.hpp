#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "backends/communicator.hpp"
#include "base/rank_team.hpp"

namespace headroom {

/// The ranks that share a request, each a thread of this process with a program and a session of its own. On a CPU they
/// share one backend and its memory, so one weight store serves them all, and each has a part of the threads.
class Ranks {
 public:
  /// `backend`, that of a CPU, must outlive this.
  Ranks(Backend& backend, int count);

  [[nodiscard]] int count() const noexcept { return team_->ranks(); }
  /// What programs of a rank are planned for: its threads, and its links to the others.
  [[nodiscard]] DeviceTarget target(int rank) const;
  /// Calls body(rank) on every rank's thread and waits for all. What one throws ends the collectives of all, and is
  /// thrown here.
  void run(const std::function<void(int rank)>& body);

 private:
  [[nodiscard]] int threads_of(int rank) const;

  Backend& backend_;
  DeviceTarget target_;
  std::shared_ptr<RankTeam> team_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
};

}  // namespace headroom
