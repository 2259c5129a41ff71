#include "measure/subprocess.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.hpp"

extern char** environ;

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

/// Starts the command with its output in the two files, and waits for it.
int spawn_and_wait(const std::vector<std::string>& command, FILE* out, FILE* err) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(err), STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail("cannot run {}: {}", command.front(), std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("lost {}: {}", command.front(), std::strerror(errno));
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
