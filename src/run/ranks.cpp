#include "run/ranks.hpp"

#include <algorithm>

namespace headroom {

Ranks::Ranks(Backend& backend, int count)
    : backend_(backend), target_(backend.properties().target), team_(std::make_shared<RankTeam>(count)) {
  for (int rank = 0; rank < count; ++rank) communicators_.push_back(make_host_communicator(team_, rank));
}

/// Equal parts, up to one thread; one at least.
int Ranks::threads_of(int rank) const {
  const int threads = target_.threads, ranks = count();
  return std::max(1, threads * (rank + 1) / ranks - threads * rank / ranks);
}

DeviceTarget Ranks::target(int rank) const {
  DeviceTarget target = target_;
  target.threads = threads_of(rank);
  target.communicator = communicators_[static_cast<std::size_t>(rank)];
  return target;
}

void Ranks::run(const std::function<void(int rank)>& body) {
  team_->run([&](int rank) {
    backend_.make_current();
    backend_.limit_threads(threads_of(rank));
    body(rank);
  });
}

}  // namespace headroom
