#pragma once

#include <memory>
#include <vector>

#include "cli/common.hpp"
#include "measure/probes/profile.hpp"
#include "measure/results/result.hpp"
#include "pipelines/generator.hpp"
#include "run/forward_pass.hpp"

namespace headroom {

/// The profiled program, ready to run.
struct ProfileSubject {
  std::unique_ptr<Generator> generator;  ///< for a whole request
  std::vector<ImageRequest> images;
  std::unique_ptr<Session> session;  ///< for one pass
  bool is_setup = false;             ///< for the setup of the generator's loop, in place of its loop
  Compiled compiled;
  Subject work;
  const char* series = "step";  ///< name of its steps in results

  [[nodiscard]] ProfiledRun run();
  /// A sentence about the setup of the profiled loop, if it has one, after a run; otherwise empty.
  [[nodiscard]] std::string describe_setup() const;
};

/// Throws a usage Error for a step cache, whose steps differ, and Error if the model does not fit.
[[nodiscard]] ProfileSubject prepare_request(const Engine& engine, const RequestOptions& options);
/// The setup of the request's loop. Throws a usage Error too if there is none.
[[nodiscard]] ProfileSubject prepare_setup(const Engine& engine, const RequestOptions& options);
[[nodiscard]] ProfileSubject prepare_pass(const Engine& engine, const ForwardPass& pass, const SwitchSet& switches);

}  // namespace headroom
