#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "backends/communicator.hpp"
#include "base/rank_team.hpp"

namespace headroom {

/// The ranks that share a request, each a thread of this process with a program and a session of its own. Of GPUs each
/// rank has one. On a CPU they share one backend and its memory, so one weight store serves them all, and each has a
/// part of the threads.
class Ranks {
 public:
  /// `backend`, that of rank 0, must outlive this. Throws a usage Error if there are too few devices.
  Ranks(Backend& backend, int count);

  [[nodiscard]] int count() const noexcept { return team_->ranks(); }
  [[nodiscard]] Backend& backend(int rank) const { return *backends_[static_cast<std::size_t>(rank)]; }
  /// What programs of a rank are planned for: its device or threads, and its links to the others.
  [[nodiscard]] DeviceTarget target(int rank) const;
  /// Calls body(rank) on every rank's thread, on which its device is current, and waits for all. What one throws ends
  /// the collectives of all, also those that were submitted, and is thrown here.
  void run(const std::function<void(int rank)>& body);
  /// Calls body() on the thread of that rank alone.
  void run_on(int rank, const std::function<void()>& body);

 private:
  [[nodiscard]] int threads_of(int rank) const;

  std::vector<Backend*> backends_;
  int shared_threads_ = 0;  // that ranks share; 0 if each has a device
  std::shared_ptr<RankTeam> team_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
};

}  // namespace headroom
