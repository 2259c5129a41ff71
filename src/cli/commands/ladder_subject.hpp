#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "measure/protocol/auto_request.hpp"
#include "measure/protocol/ladder.hpp"

namespace headroom {

/// What a ladder is climbed on: the requests of a pipeline, or one pass of a network.
class LadderSubject {
 public:
  /// An empty `pass`, or kWholeRequest, is a pipeline's requests; of a network that makes no images the first of its
  /// passes, and of one that frames of a stream go through kFrame. `options.request` is as it was asked for; its sizes
  /// and images are resolved. The engine must outlive the subject. Throws a usage Error for a pass that there is not,
  /// and for options that are for requests alone.
  LadderSubject(const Engine& engine, std::string pass, const ImageSize& size, LadderOptions& options);

  /// Empty where it is requests.
  [[nodiscard]] const std::string& pass() const noexcept { return pass_; }
  [[nodiscard]] bool is_pass() const noexcept { return made_.has_value(); }
  /// Whether there are images of each rung to look at.
  [[nodiscard]] bool makes_images() const;
  /// What `auto` chooses switches for.
  [[nodiscard]] AutoRequest auto_request(const RequestOptions& request) const;
  /// What is climbed unless told: the switches that can change something on the device, and of requests half the steps,
  /// where they can be halved.
  [[nodiscard]] std::string default_switches(const RequestOptions& request) const;
  /// Throws a usage Error for a switch of streams that the stream has no use for.
  void check_switches(const SwitchSet& switches) const;
  /// Options that were given and change nothing of the passes that are measured.
  [[nodiscard]] std::vector<IdleOption> idle_options(const LadderOptions& options) const;

  /// Runs rounds here, as run_rounds_here() does.
  [[nodiscard]] RoundRun rounds(const LadderOptions& options, std::int64_t process,
                                const LadderObserver& observer) const;

 private:
  void judge_frames(const LadderOptions& options, const ImageSize& size);

  const Engine& engine_;
  std::string pass_;
  std::optional<LadderPass> made_;
};

}  // namespace headroom
