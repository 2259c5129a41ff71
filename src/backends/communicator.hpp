#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/device_memory.hpp"
#include "base/rank_team.hpp"

namespace headroom {

class Stream;

/// One rank's links to the other ranks that work on the same request. It moves bytes, and knows no op.
class Communicator {
 public:
  /// Device memory that another rank reads, and device memory that another rank's bytes are written to.
  struct Sent {
    int to = 0;
    DevicePointer from = {};
    std::size_t bytes = 0;
  };
  struct Received {
    int from = 0;
    DevicePointer to = {};
    std::size_t bytes = 0;
  };

  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int ranks() const noexcept = 0;
  /// Submits one exchange: later work on the stream may write what was sent and read what was received. At most one
  /// piece for each rank in either direction, none for this one. All ranks that are named must submit their side, with
  /// the same sizes and in the same order as their other exchanges with this rank. On a CPU it returns when it is done,
  /// and throws RankStopped if a rank has failed.
  virtual void exchange(Stream& stream, std::span<const Sent> sent, std::span<const Received> received) = 0;
};

/// The links of rank `rank` of a team whose devices' memory is the host's: ranks copy from each other. To be used on
/// the thread of that rank, while the team runs.
[[nodiscard]] std::shared_ptr<Communicator> make_host_communicator(std::shared_ptr<RankTeam> team, int rank);

}  // namespace headroom
