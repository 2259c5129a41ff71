#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/host_tensor.hpp"
#include "measure/auto_choice.hpp"
#include "run/generator.hpp"
#include "run/model.hpp"

namespace headroom {

/// What `auto` is to make fast: a denoise loop, or one forward pass.
struct AutoRequest {
  std::optional<GeneratorOptions> denoise;  ///< its switches are those that are fixed
  FluxShape forward;                        ///< where there is no loop
};
/// The request as it enters the key of a cached choice.
[[nodiscard]] nlohmann::json to_json(const Model& model, const AutoRequest& request);

/// Measures sets of switches on a real request, with random noise and prompts: a loop by its steps, two at a time and
/// with their share of what runs before them, a forward pass by itself. At most two sets are in memory, each with
/// weights of its own, and for a moment the baseline, whose output the errors are against.
class RequestBench : public AutoBench {
 public:
  /// Both must outlive the bench.
  RequestBench(const Model& model, Backend& backend, const AutoRequest& request);
  ~RequestBench() override;

  std::vector<Declined> build(const SwitchSet& set, const SwitchSet& current) override;
  double error(const SwitchSet& set) override;
  PairedTimes time(const SwitchSet& a, const SwitchSet& b, double seconds) override;

 private:
  class Subject;
  [[nodiscard]] HostTensor forward_output(const SwitchSet& set, WeightStore& weights) const;
  [[nodiscard]] Subject& subject(const SwitchSet& set);

  const Model& model_;
  Backend& backend_;
  AutoRequest request_;
  std::vector<std::unique_ptr<Subject>> subjects_;
  std::optional<HostTensor> baseline_;  // output of a forward pass without switches
};

}  // namespace headroom
