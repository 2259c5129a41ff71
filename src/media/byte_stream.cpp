#include "media/byte_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>

#include "base/error.hpp"

namespace headroom {
namespace {

/// A pipe holds 64 KiB by default, a sixth of a small frame. Raises it to the maximum for unprivileged users, so
/// that frames pass with fewer context switches.
void widen_pipe(int descriptor) {
#ifdef F_SETPIPE_SZ
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode))
    static_cast<void>(::fcntl(descriptor, F_SETPIPE_SZ, 1 << 20));
#endif
}

/// While it lives, writing to a pipe without a reader fails in this thread, instead of ending the process.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_signal(), &before_);
  }
  ~WithoutPipeSignal() {
    constexpr timespec kAtOnce{};
    if (!was_pending_)
      while (::sigtimedwait(&pipe_signal(), nullptr, &kAtOnce) < 0 && errno == EINTR) {
      }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  static const sigset_t& pipe_signal() {
    static const sigset_t signals = [] {
      sigset_t one;
      ::sigemptyset(&one);
      ::sigaddset(&one, SIGPIPE);
      return one;
    }();
    return signals;
  }

  sigset_t before_{};
  bool was_pending_;
};

void write_to_standard_output(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) fail("cannot write to standard output: the program that read it has ended");
    if (written < 0) fail("cannot write to standard output: {}", reason_not_written(errno, "its device", bytes.size()));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

InputStream::InputStream(const std::string& name)
    : name_(name == "-" ? "standard input" : name),
      descriptor_(name == "-" ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail("cannot read {}: {}", name_, std::generic_category().message(errno));
  if (::isatty(descriptor_) != 0) fail("{} is a terminal; expected a file or a pipe with frames", name_);
  widen_pipe(descriptor_);
}

InputStream::~InputStream() {
  if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
}

std::size_t InputStream::read_some(std::span<std::uint8_t> to) {
  while (true) {
    const ssize_t count = ::read(descriptor_, to.data(), to.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) fail("cannot read {}: {}", name_, std::generic_category().message(errno));
  }
}

std::size_t InputStream::read(std::span<std::uint8_t> to) {
  std::size_t length = 0;
  while (length < to.size()) {
    const std::size_t count = read_some(to.subspan(length));
    if (count == 0) break;
    length += count;
  }
  return length;
}

std::optional<InputStream::Line> InputStream::read_line(std::size_t most_bytes) {
  Line line;
  while (line.text.size() < most_bytes) {
    std::uint8_t byte = 0;
    // single bytes, since a line is short and the following bytes belong in the caller's memory
    if (read_some({&byte, 1}) == 0) {
      if (line.text.empty()) return std::nullopt;
      return line;
    }
    if (byte == '\n') {
      line.is_whole = true;
      return line;
    }
    line.text.push_back(static_cast<char>(byte));
  }
  return line;
}

OutputStream::OutputStream(const std::string& name) {
  if (name != "-") {
    file_.emplace(name);
    return;
  }
  if (::isatty(STDOUT_FILENO) != 0) fail("standard output is a terminal; expected a file or a pipe");
  widen_pipe(STDOUT_FILENO);
}

void OutputStream::write(std::span<const std::uint8_t> bytes) {
  const WithoutPipeSignal guard;
  if (file_) {
    file_->write(std::as_bytes(bytes));
  } else {
    write_to_standard_output(bytes);
  }
}

void OutputStream::finish() {
  if (file_) file_->commit();
}

}  // namespace headroom
