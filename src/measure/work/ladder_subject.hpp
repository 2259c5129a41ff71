#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/protocol/auto_request.hpp"
#include "measure/protocol/ladder.hpp"
#include "measure/work/opened_model.hpp"

namespace headroom {

/// The subject of a ladder: the requests of a pipeline, or one pass of a network.
class LadderSubject {
 public:
  /// An empty `pass` or kWholeRequest selects the requests of a pipeline. For a network that makes no images it
  /// selects its first pass, and for a network of streams kFrame. `options.request` is as requested; its sizes and
  /// images are resolved. Model and backend must outlive the subject. Throws a usage Error for an unknown pass, and for
  /// options that only apply to requests.
  LadderSubject(const OpenedModel& model, Backend& backend, std::string pass, const ImageSize& size,
                LadderOptions& options);

  /// Empty for requests.
  [[nodiscard]] const std::string& pass() const noexcept { return pass_; }
  [[nodiscard]] bool is_pass() const noexcept { return made_.has_value(); }
  /// Whether each rung produces images that can be viewed.
  [[nodiscard]] bool makes_images() const;
  /// The request for which `auto` chooses switches.
  [[nodiscard]] AutoRequest auto_request(const RequestOptions& request) const;
  /// The default switches of the ladder: those that can have an effect on the device. For requests also half the
  /// steps, if they can be halved.
  [[nodiscard]] std::string default_switches(const RequestOptions& request) const;
  /// Throws a usage Error for a switch of streams that does not apply to the stream.
  void check_switches(const SwitchSet& switches) const;
  /// The given options that have no effect on the measured passes.
  [[nodiscard]] std::vector<IdleOption> idle_options(const LadderOptions& options) const;

  /// Runs rounds in this process, as run_rounds_here() does.
  [[nodiscard]] RoundRun rounds(const LadderOptions& options, std::int64_t process,
                                const LadderObserver& observer) const;

 private:
  void judge_frames(const LadderOptions& options, const ImageSize& size);

  const OpenedModel& model_;
  Backend& backend_;
  std::string pass_;
  ImageSize size_;  ///< as asked
  std::optional<LadderPass> made_;
};

}  // namespace headroom
