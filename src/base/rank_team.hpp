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

/// Rows of bytes at equal distances in memory. Contiguous bytes are one row.
template <class Byte>
struct ByteRows {
  Byte* first = nullptr;
  std::size_t rows = 0;
  std::size_t row_bytes = 0;
  std::size_t pitch = 0;  ///< bytes from one row to the next

  ByteRows() = default;
  ByteRows(Byte* at, std::size_t count, std::size_t bytes_of_row, std::size_t distance)
      : first(at), rows(count), row_bytes(bytes_of_row), pitch(distance) {}
  // NOLINTNEXTLINE(google-explicit-constructor): contiguous bytes are rows as well
  ByteRows(std::span<Byte> bytes) : ByteRows(bytes.data(), 1, bytes.size(), bytes.size()) {}

  [[nodiscard]] std::size_t bytes() const { return rows * row_bytes; }
};
/// Copies bytes in their order; rows may be cut differently. Both have as many bytes.
void copy_rows(const ByteRows<const std::byte>& from, const ByteRows<std::byte>& to);

/// The ranks of a request as threads of this process, one each, which live as long as the team. While they run, they
/// copy memory from each other.
class RankTeam {
 public:
  /// Memory for another rank, and memory that another rank's bytes are copied to.
  struct Sent {
    int to = 0;
    ByteRows<const std::byte> bytes;
  };
  struct Received {
    int from = 0;
    ByteRows<std::byte> bytes;
  };

  explicit RankTeam(int ranks);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  [[nodiscard]] int ranks() const noexcept;

  /// Calls body(rank) on every rank's thread, and returns when all have returned. If one throws, exchange() and meet()
  /// throw RankStopped in the others, and the first exception is thrown here. `on_failure` is called at once, on the
  /// thread of the rank that threw first. The team can then run again. One run at a time.
  void run(const std::function<void(int rank)>& body, const std::function<void()>& on_failure = {});

  /// Called in run() by `rank`: copies what others send to it, and returns when others have copied what it sends. Each
  /// pair of ranks exchanges its pieces in order; a rank may send to others while it receives from yet others, at most
  /// one piece per rank in either direction, none to itself. Throws std::logic_error if the sizes of a piece differ,
  /// and if the other rank has returned from its body.
  void exchange(int rank, std::span<const Sent> sent, std::span<const Received> received);

  /// Called in run() by every rank: returns when all have called it. Throws std::logic_error if another rank has
  /// returned from its body.
  void meet();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace headroom
