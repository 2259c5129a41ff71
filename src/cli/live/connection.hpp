#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace headroom {

/// How long, and for how much, a browser may keep one waiting.
struct ConnectionLimits {
  std::chrono::milliseconds request{10'000};  ///< until all of a request has come
  std::chrono::milliseconds stall{10'000};    ///< until it takes any of what is sent
  std::chrono::milliseconds farewell{500};    ///< until it has read the last of an answer and closes
  std::size_t request_bytes = 32 * 1024;      ///< head and body of a request
};

/// A socket with somebody unknown at the other end: nothing waits for him longer than the limits say. One request and
/// one answer each.
class Connection {
 public:
  /// Takes the descriptor, which is not closed before the object's end.
  Connection(int descriptor, const ConnectionLimits& limits);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  enum class Reading { kGoesOn, kEnded, kTooLate, kTooLong };
  /// At most `bytes` of the request; 0 where there is no more, and reading() says why.
  [[nodiscard]] std::size_t read(char* out, std::size_t bytes);
  [[nodiscard]] Reading reading() const noexcept { return reading_; }

  /// Sends all of it, or is false.
  [[nodiscard]] bool write(std::string_view data);
  [[nodiscard]] bool has_written() const noexcept { return has_written_; }

  /// Whether the other end is still there.
  [[nodiscard]] bool is_open() const;
  /// Says that nothing more will be sent, and waits a moment until the other end has read it: a socket that is closed
  /// with something unread takes back what was sent last.
  void finish();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  [[nodiscard]] bool fill_buffer();

  int descriptor_;
  ConnectionLimits limits_;
  std::chrono::steady_clock::time_point deadline_;
  Reading reading_ = Reading::kGoesOn;
  bool has_written_ = false;
  std::size_t received_ = 0;
  std::size_t buffered_ = 0, taken_ = 0;  // of the buffer
  char buffer_[4096];
};

/// Sends at once what fits, and closes the socket: for one that nobody has time for.
void send_and_close(int descriptor, std::string_view data);

}  // namespace headroom
