#include "measure/protocol/subprocess.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "base/interrupt.hpp"

namespace headroom {
namespace {

using CFile = std::unique_ptr<FILE, int (*)(FILE*)>;

CFile temporary_file() {
  CFile file(std::tmpfile(), std::fclose);
  if (!file) fail("cannot make a temporary file: {}", std::strerror(errno));
  return file;
}

std::string read_all(FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 65536> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), n);
  return text;
}

/// A pipe that started programs do not inherit.
struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
  }
  ~Pipe() {
    close(ends[0]);
    close_input();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_input() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
  std::array<int, 2> ends{};
};

/// Runs in the child between fork() and exec. It must not take a lock, because other threads may hold it.
[[noreturn]] void become(char* const* arguments, pid_t parent, int out, int err, int failure) {
  const int in = open("/dev/null", O_RDONLY);
  const bool is_ready = in >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
                        dup2(err, STDERR_FILENO) >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  restore_signal_mask();
  if (is_ready && getppid() == parent) execvp(arguments[0], arguments);
  const int error = errno;
  (void)!write(failure, &error, sizeof error);
  _exit(127);
}

/// Starts the command with its output in the two files, and waits for it. The process ends with this thread at the
/// latest.
int spawn_and_wait(const std::vector<std::string>& command, FILE* out, FILE* err) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  Pipe failure;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) fail("cannot run {}: {}", command.front(), std::strerror(errno));
  if (child == 0) become(arguments.data(), parent, fileno(out), fileno(err), failure.ends[1]);
  failure.close_input();
  int error = 0, status = 0;
  const bool has_failed = read(failure.ends[0], &error, sizeof error) == sizeof error;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("lost {}: {}", command.front(), std::strerror(errno));
  if (has_failed) fail("cannot run {}: {}", command.front(), std::strerror(error));
  return status;
}

}  // namespace

ProcessOutcome run_process(const std::vector<std::string>& command) {
  const CFile out = temporary_file(), err = temporary_file();
  const int status = spawn_and_wait(command, out.get(), err.get());
  ProcessOutcome outcome{.code = 0, .signal = 0, .out = read_all(out.get()), .err = read_all(err.get())};
  if (WIFSIGNALED(status))
    outcome.signal = WTERMSIG(status);
  else
    outcome.code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace headroom
