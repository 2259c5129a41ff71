#pragma once

#include <string>
#include <vector>

namespace headroom {

/// How a process ended, and its output.
struct ProcessOutcome {
  int code = 0;    ///< exit code, if no signal ended it
  int signal = 0;  ///< the signal that ended it, or 0
  std::string out;
  std::string err;
};

/// Runs a program (found in PATH) with its arguments and without input, and waits for it. It is killed if this
/// process ends first, for any reason. Throws Error if it cannot be started.
[[nodiscard]] ProcessOutcome run_process(const std::vector<std::string>& command);

}  // namespace headroom
