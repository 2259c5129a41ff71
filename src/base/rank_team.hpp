#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>

namespace headroom {

/// Thrown by a rank that waits for another one after some rank has failed.
class RankStopped : public std::runtime_error {
 public:
  RankStopped() : std::runtime_error("another rank has failed") {}
};

/// The ranks of a request as threads of this process, one each, which live as long as the team. While they run, they
/// copy memory from each other.
class RankTeam {
 public:
  /// Memory for another rank, and memory that another rank's bytes are copied to.
  struct Sent {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  struct Received {
    int from = 0;
    std::span<std::byte> bytes;
  };

  explicit RankTeam(int ranks);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  [[nodiscard]] int ranks() const noexcept;

  /// Calls body(rank) on every rank's thread, and returns when all have returned. If one throws, exchange() throws
  /// RankStopped in the others, and the first exception is thrown here. The team can then run again. One run at a
  /// time.
  void run(const std::function<void(int rank)>& body);

  /// Called in run() by `rank`: copies what others send to it, and returns when others have copied what it sends. Each
  /// pair of ranks exchanges its pieces in order; a rank may send to others while it receives from yet others, at most
  /// one piece per rank in either direction, none to itself. Throws std::logic_error if the sizes of a piece differ,
  /// and if the other rank has returned from its body.
  void exchange(int rank, std::span<const Sent> sent, std::span<const Received> received);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace headroom
