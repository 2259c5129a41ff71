#include "base/rank_team.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {

void copy_rows(const ByteRows<const std::byte>& from, const ByteRows<std::byte>& to) {
  HR_CHECK_EQ(from.bytes(), to.bytes());
  std::size_t read_row = 0, read = 0, written_row = 0, written = 0;  // bytes of these rows
  for (std::size_t left = from.bytes(); left > 0;) {
    const std::size_t piece = std::min(from.row_bytes - read, to.row_bytes - written);
    std::memcpy(to.first + written_row * to.pitch + written, from.first + read_row * from.pitch + read, piece);
    left -= piece;
    read += piece;
    written += piece;
    if (read == from.row_bytes) {
      ++read_row;
      read = 0;
    }
    if (written == to.row_bytes) {
      ++written_row;
      written = 0;
    }
  }
}

class RankTeam::State {
 public:
  explicit State(int ranks)
      : ranks_(ranks), pieces_(index(ranks, 0)), has_returned_(static_cast<std::size_t>(ranks), false) {
    HR_CHECK_LE(1, ranks);
    try {
      for (int rank = 0; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
    } catch (...) {
      end();
      throw;
    }
  }
  ~State() { end(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] int ranks() const noexcept { return ranks_; }

  void run(const std::function<void(int rank)>& body, const std::function<void()>& on_failure) {
    std::unique_lock lock(mutex_);
    HR_CHECK(body_ == nullptr);
    body_ = &body;
    on_failure_ = &on_failure;
    waiting_ = 0;
    running_ = ranks_;
    failure_ = nullptr;
    pieces_.assign(pieces_.size(), {});
    has_returned_.assign(has_returned_.size(), false);
    ++runs_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ == 0; });
    body_ = nullptr;
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void exchange(int rank, std::span<const Sent> sent, std::span<const Received> received) {
    std::unique_lock lock(mutex_);
    if (failure_ != nullptr) throw RankStopped();
    for (const auto& [to, bytes] : sent) {
      Piece& piece = piece_of(rank, to);
      HR_CHECK(!piece.is_offered);
      piece = {.bytes = bytes, .is_offered = true};
    }
    changed_.notify_all();
    try {
      for (const auto& [from, bytes] : received) receive(lock, piece_of(from, rank), from, bytes);
      for (const Sent& piece : sent) wait_for(lock, piece.to, [&] { return !piece_of(rank, piece.to).is_offered; });
    } catch (...) {
      withdraw(lock, rank, sent);
      throw;
    }
  }

  void meet() {
    std::unique_lock lock(mutex_);
    if (failure_ != nullptr) throw RankStopped();
    const std::uint64_t meeting = meetings_;
    if (++waiting_ == ranks_) {
      waiting_ = 0;
      ++meetings_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return meetings_ != meeting || failure_ != nullptr || has_any_returned(); });
    if (meetings_ != meeting) return;
    if (failure_ != nullptr) throw RankStopped();
    throw std::logic_error("a rank has ended before a meeting that another rank waits for");
  }

 private:
  [[nodiscard]] bool has_any_returned() const { return std::ranges::find(has_returned_, true) != has_returned_.end(); }

  /// Memory that one rank sends to another; it stays as it is until the other has copied it.
  struct Piece {
    ByteRows<const std::byte> bytes = {};
    bool is_offered = false;
    bool is_being_copied = false;
  };

  [[nodiscard]] std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(to);
  }
  Piece& piece_of(int from, int to) {
    HR_CHECK(from != to && from >= 0 && to >= 0 && from < ranks_ && to < ranks_);
    return pieces_[index(from, to)];
  }

  /// Waits until `holds`, while `other` can still make it hold.
  template <class Condition>
  void wait_for(std::unique_lock<std::mutex>& lock, int other, const Condition& holds) {
    const auto at = static_cast<std::size_t>(other);
    changed_.wait(lock, [&] { return holds() || failure_ != nullptr || has_returned_[at]; });
    if (holds()) return;
    if (failure_ != nullptr) throw RankStopped();
    throw std::logic_error(fmt::format("rank {} has ended before an exchange that another rank waits for", other));
  }

  void receive(std::unique_lock<std::mutex>& lock, Piece& piece, int from, const ByteRows<std::byte>& to) {
    wait_for(lock, from, [&] { return piece.is_offered; });
    HR_CHECK_EQ(piece.bytes.bytes(), to.bytes());
    piece.is_being_copied = true;
    lock.unlock();
    copy_rows(piece.bytes, to);
    lock.lock();
    piece = {};
    changed_.notify_all();
  }

  /// Takes back what nobody has copied: the memory is about to be freed.
  void withdraw(std::unique_lock<std::mutex>& lock, int rank, std::span<const Sent> sent) {
    for (const Sent& one : sent) {
      Piece& piece = piece_of(rank, one.to);
      changed_.wait(lock, [&] { return !piece.is_being_copied; });
      piece = {};
    }
  }

  void serve(int rank) {
    std::uint64_t done = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_over_ || runs_ != done; });
      if (is_over_) return;
      done = runs_;
      const std::function<void(int)>& body = *body_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        body(rank);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure_ == nullptr && failure != nullptr) {
        failure_ = failure;
        changed_.notify_all();
        if (*on_failure_) {
          lock.unlock();
          (*on_failure_)();
          lock.lock();
        }
      }
      has_returned_[static_cast<std::size_t>(rank)] = true;
      --running_;
      failure = nullptr;
      changed_.notify_all();
    }
  }

  void end() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;  // anything below
  std::vector<Piece> pieces_;        // from each rank to each
  std::vector<bool> has_returned_;   // from the body, by rank
  std::exception_ptr failure_;       // the first of a run
  const std::function<void(int)>* body_ = nullptr;
  const std::function<void()>* on_failure_ = nullptr;
  int waiting_ = 0;             // in meet()
  std::uint64_t meetings_ = 0;  // that all have left
  int running_ = 0;
  std::uint64_t runs_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

RankTeam::RankTeam(int ranks) : state_(std::make_unique<State>(ranks)) {}
RankTeam::~RankTeam() = default;
int RankTeam::ranks() const noexcept { return state_->ranks(); }
void RankTeam::run(const std::function<void(int rank)>& body, const std::function<void()>& on_failure) {
  state_->run(body, on_failure);
}
void RankTeam::meet() { state_->meet(); }
void RankTeam::exchange(int rank, std::span<const Sent> sent, std::span<const Received> received) {
  state_->exchange(rank, sent, received);
}

}  // namespace headroom
