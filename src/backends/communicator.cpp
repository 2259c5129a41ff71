#include "backends/communicator.hpp"

#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::shared_ptr<RankTeam> team, int rank) : team_(std::move(team)), rank_(rank) {
    HR_CHECK(rank >= 0 && rank < team_->ranks());
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int ranks() const noexcept override { return team_->ranks(); }

  void exchange(Stream& /*stream*/, std::span<const Sent> sent, std::span<const Received> received) override {
    std::vector<RankTeam::Sent> out;
    for (const Sent& piece : sent)
      out.push_back({.to = piece.to, .bytes = {piece.from.address<const std::byte>(), piece.bytes}});
    std::vector<RankTeam::Received> in;
    for (const Received& piece : received)
      in.push_back({.from = piece.from, .bytes = {piece.to.address<std::byte>(), piece.bytes}});
    team_->exchange(rank_, out, in);
  }

 private:
  std::shared_ptr<RankTeam> team_;
  int rank_;
};

}  // namespace

std::shared_ptr<Communicator> make_host_communicator(std::shared_ptr<RankTeam> team, int rank) {
  return std::make_shared<HostCommunicator>(std::move(team), rank);
}

}  // namespace headroom
