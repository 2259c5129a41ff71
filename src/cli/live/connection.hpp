#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace headroom {

/// Limits on the time and bytes that a client may take.
struct ConnectionLimits {
  std::chrono::milliseconds request{10'000};  ///< until the whole request has arrived
  std::chrono::milliseconds stall{10'000};    ///< until the client accepts any of the sent data
  std::chrono::milliseconds farewell{500};    ///< until the client has read the end of an answer and closes
  std::size_t request_bytes = 32 * 1024;      ///< head and body of a request
};

/// A socket to an untrusted client. No wait exceeds the limits. A connection carries one request and one answer.
class Connection {
 public:
  /// Takes ownership of the descriptor, which is closed with the object.
  Connection(int descriptor, const ConnectionLimits& limits);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  enum class Reading { kGoesOn, kEnded, kTooLate, kTooLong };
  /// Reads at most `bytes` of the request. Returns 0 if there is no more, with the reason in reading().
  [[nodiscard]] std::size_t read(char* out, std::size_t bytes);
  [[nodiscard]] Reading reading() const noexcept { return reading_; }

  /// Sends all of `data`. Returns false on failure.
  [[nodiscard]] bool write(std::string_view data);
  [[nodiscard]] bool has_written() const noexcept { return has_written_; }

  /// Whether the client is still connected.
  [[nodiscard]] bool is_open() const;
  /// Announces the end of the data and waits briefly until the client has read it. Closing a socket with unread
  /// input would discard the data that was sent last.
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
  std::size_t buffered_ = 0, taken_ = 0;  // positions in the buffer
  char buffer_[4096];
};

/// Sends at once as much as fits, and closes the socket: for a client that cannot be served.
void send_and_close(int descriptor, std::string_view data);

}  // namespace headroom
