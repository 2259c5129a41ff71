#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/host_tensor.hpp"
#include "measure/auto_choice.hpp"
#include "pipelines/generator.hpp"
#include "run/forward_pass.hpp"

namespace headroom {

/// What `auto` is to make fast: a denoise loop, or one forward pass.
struct AutoRequest {
  ForwardPass forward;                    ///< its outputs say what switches cost; timed where there is no loop
  const Pipeline* pipeline = nullptr;     ///< of the loop, with `denoise`
  std::optional<RequestOptions> denoise;  ///< its switches are those that are fixed
};
/// Of a loop. The pipeline must outlive the request.
[[nodiscard]] AutoRequest make_auto_request(const Pipeline& pipeline, const RequestOptions& options);
/// The request as it enters the key of a cached choice.
[[nodiscard]] nlohmann::json to_json(const AutoRequest& request);

/// Measures sets of switches on a real request, with random noise and prompts: a loop by its steps, two at a time and
/// with their share of what runs before them, or with a step cache as a whole, a forward pass by itself. At most two sets are in memory, each with
/// weights of its own, and for a moment the baseline, whose output the errors are against.
class RequestBench : public AutoBench {
 public:
  /// What the request is made of, and the backend, must outlive the bench.
  RequestBench(Backend& backend, AutoRequest request);
  ~RequestBench() override;

  std::vector<Declined> build(const SwitchSet& set, const SwitchSet& current) override;
  double error(const SwitchSet& set) override;
  std::vector<std::string> step_caches() override;
  double request_error(const SwitchSet& set, const SwitchSet& current) override;
  PairedTimes time(const SwitchSet& a, const SwitchSet& b, double seconds) override;

 private:
  class Subject;
  [[nodiscard]] std::vector<HostTensor> outputs(const SwitchSet& set, WeightStore& weights) const;
  [[nodiscard]] Subject& subject(const SwitchSet& set, bool whole = false);

  Backend& backend_;
  AutoRequest request_;
  std::vector<std::unique_ptr<Subject>> subjects_;
  std::vector<HostTensor> baseline_;  // outputs of a forward pass without switches
};

}  // namespace headroom
