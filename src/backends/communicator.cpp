#include "backends/communicator.hpp"

#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

template <class Byte>
ByteRows<Byte> host_rows(const Communicator::Rows& rows) {
  return {rows.at.address<Byte>(), rows.rows, rows.row_bytes, rows.pitch};
}

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::shared_ptr<RankTeam> team, int rank) : team_(std::move(team)), rank_(rank) {
    HR_CHECK(rank >= 0 && rank < team_->ranks());
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int ranks() const noexcept override { return team_->ranks(); }

  void exchange(Stream& /*stream*/, std::span<const Sent> sent, std::span<const Received> received,
                std::span<const Kept> kept) override {
    std::vector<RankTeam::Sent> out;
    for (const Sent& piece : sent) out.push_back({.to = piece.to, .bytes = host_rows<const std::byte>(piece.from)});
    std::vector<RankTeam::Received> in;
    for (const Received& piece : received) in.push_back({.from = piece.from, .bytes = host_rows<std::byte>(piece.to)});
    team_->exchange(rank_, out, in);
    for (const auto& [from, to] : kept) copy_rows(host_rows<const std::byte>(from), host_rows<std::byte>(to));
  }

  void meet() override { team_->meet(); }

 private:
  std::shared_ptr<RankTeam> team_;
  int rank_;
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> make_host_communicators(const std::shared_ptr<RankTeam>& team) {
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (int rank = 0; rank < team->ranks(); ++rank)
    communicators.push_back(std::make_shared<HostCommunicator>(team, rank));
  return communicators;
}

}  // namespace headroom
