#pragma once

#include <string>
#include <vector>

namespace headroom {

/// How a process ended and what it wrote.
struct ProcessOutcome {
  int code = 0;    ///< exit code, where no signal ended it
  int signal = 0;  ///< that ended it, or 0
  std::string out;
  std::string err;
};

/// Runs a program (found in PATH) with its arguments and without input, and waits for it. It is killed when this
/// process ends before it, however that comes. Throws Error where it cannot be started.
[[nodiscard]] ProcessOutcome run_process(const std::vector<std::string>& command);

}  // namespace headroom
