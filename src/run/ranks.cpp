#include "run/ranks.hpp"

#include <algorithm>

#include "backends/rank_backend.hpp"

namespace headroom {

Ranks::Ranks(Backend& backend, int count) : team_(std::make_shared<RankTeam>(count)) {
  if (auto* const devices = dynamic_cast<RankBackend*>(&backend)) {
    for (int rank = 0; rank < count; ++rank) backends_.push_back(&devices->backend_of_rank(rank));
    communicators_ = devices->connect(team_);
  } else {
    backends_.assign(static_cast<std::size_t>(count), &backend);
    shared_threads_ = backend.properties().target.threads;
    communicators_ = make_host_communicators(team_);
  }
}

/// Equal parts, up to one thread; one at least.
int Ranks::threads_of(int rank) const {
  const int ranks = count();
  return std::max(1, shared_threads_ * (rank + 1) / ranks - shared_threads_ * rank / ranks);
}

DeviceTarget Ranks::target(int rank) const {
  DeviceTarget target = backend(rank).properties().target;
  if (shared_threads_ > 0) target.threads = threads_of(rank);
  target.communicator = communicators_[static_cast<std::size_t>(rank)];
  return target;
}

void Ranks::run(const std::function<void(int rank)>& body) {
  const auto on_rank = [&](int rank) {
    backend(rank).make_current();
    if (shared_threads_ > 0) backend(rank).limit_threads(threads_of(rank));
    body(rank);
  };
  const auto stop_all = [&] {
    for (const std::shared_ptr<Communicator>& communicator : communicators_) communicator->stop();
  };
  try {
    team_->run(on_rank, stop_all);
  } catch (...) {
    communicators_.front()->restart();
    throw;
  }
}

void Ranks::run_on(int rank, const std::function<void()>& body) {
  run([&](int other) {
    if (other == rank) body();
  });
}

}  // namespace headroom
