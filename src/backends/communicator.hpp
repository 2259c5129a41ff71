#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/device_memory.hpp"
#include "base/rank_team.hpp"

namespace headroom {

class Stream;

/// One rank's links to the other ranks that work on the same request. It moves bytes, and knows no op.
class Communicator {
 public:
  /// Rows of bytes at equal distances in device memory, copied in their order; both sides of a piece may have their
  /// own rows.
  struct Rows {
    DevicePointer at = {};
    std::size_t rows = 1;
    std::size_t row_bytes = 0;
    std::size_t pitch = 0;  ///< bytes from one row to the next

    [[nodiscard]] std::size_t bytes() const { return rows * row_bytes; }
  };
  [[nodiscard]] static Rows contiguous(DevicePointer at, std::size_t bytes) { return {at, 1, bytes, bytes}; }

  /// Device memory that another rank reads, and device memory that another rank's bytes are written to.
  struct Sent {
    int to = 0;
    Rows from = {};
  };
  struct Received {
    int from = 0;
    Rows to = {};
  };
  /// What this rank copies to itself.
  struct Kept {
    Rows from = {}, to = {};
  };

  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int ranks() const noexcept = 0;
  /// Submits one exchange: later work on the stream may write what was sent and read what was received or kept. At most
  /// one piece for each rank in either direction, none for this one. All ranks that are named must submit their side,
  /// with the same sizes and in the same order as their other exchanges with this rank; exchanges of a rank on several
  /// streams must be ordered. Throws RankStopped if a rank has failed.
  virtual void exchange(Stream& stream, std::span<const Sent> sent, std::span<const Received> received,
                        std::span<const Kept> kept) = 0;

  /// Called by all ranks before each replay of a recording that holds exchanges: returns when all have called it, so
  /// that none is a replay ahead. Throws RankStopped if a rank has failed.
  virtual void meet() = 0;
  /// Ends the exchanges that wait for another rank, and all that are submitted later. From any thread.
  virtual void stop() noexcept {}
  /// After stop(), when no rank submits anything: waits for what all have submitted, and forgets what was in progress,
  /// so that they can exchange again. Called for one rank.
  virtual void restart() {}
};

/// The links of all ranks of a team whose devices' memory is the host's: ranks copy from each other. Each is to be used
/// on the thread of its rank, while the team runs.
[[nodiscard]] std::vector<std::shared_ptr<Communicator>> make_host_communicators(const std::shared_ptr<RankTeam>& team);

}  // namespace headroom
