#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "measure/protocol/auto_choice.hpp"
#include "measure/quality/judge.hpp"
#include "pipelines/generator.hpp"
#include "run/forward_pass.hpp"

namespace headroom {

/// The work that `auto` optimizes: a denoise loop, or one forward pass.
struct AutoRequest {
  ForwardPass forward;                    ///< its outputs measure the error of switches; timed if there is no loop
  const Pipeline* pipeline = nullptr;     ///< of the loop; set together with `denoise`
  std::optional<RequestOptions> denoise;  ///< its switches are the fixed ones
  std::int64_t judged_images = 500;       ///< with fewer, a Frechet distance means little; exceeds the judge's features
};
/// The request of a denoise loop. The pipeline must outlive it.
[[nodiscard]] AutoRequest make_auto_request(const Pipeline& pipeline, const RequestOptions& options);
/// The request as part of the key of a cached choice.
[[nodiscard]] nlohmann::json to_json(const AutoRequest& request);

/// The candidates of AutoBench::cheaper_loops() for a request, with a quarter to two thirds of the denoiser's calls:
/// - the samplers `unipc` and `dpm++2m` in fewer steps. A fixed sampler is the only one tried; none is tried if the
///   steps are fixed, or if the sampler adds fresh noise, which models are distilled for;
/// - `meancache`, with the schedule calibrated for the request if there is one;
/// - `fbcache`.
[[nodiscard]] std::vector<std::string> cheaper_loops_of(const Request& request, const SwitchSet& fixed);

/// Measures sets of switches on a real request, with random noise and prompts. Loops are timed by their steps, two at
/// a time and with their share of the work before them; cheaper loops are timed as a whole, and forward passes by
/// themselves. At most two sets are in memory, each with its own weights, and briefly the baseline, whose output the
/// errors are measured against.
class RequestBench : public AutoBench {
 public:
  /// Progress of a slow operation: `done` of `total` steps, with a label.
  using Observer = std::function<void(std::string_view label, std::int64_t done, std::int64_t total)>;

  /// The objects that the request refers to, and the backend, must outlive the bench.
  RequestBench(Backend& backend, AutoRequest request, Observer observer = {});
  ~RequestBench() override;

  std::vector<Declined> build(const SwitchSet& set, const SwitchSet& current) override;
  double error(const SwitchSet& set) override;
  std::vector<std::string> cheaper_loops() override;
  /// Measured by the model's judge on `judged_images` images, if the model has a judge and the request has the
  /// model's own size; otherwise on the request's latents.
  Loss loss(const SwitchSet& set, const SwitchSet& current) override;
  PairedTimes time(const SwitchSet& a, const SwitchSet& b, double seconds) override;

 private:
  class Subject;
  [[nodiscard]] std::vector<HostTensor> outputs(const SwitchSet& set, WeightStore& weights) const;
  [[nodiscard]] Subject& subject(const SwitchSet& set, bool whole = false);
  /// Whether the set changes the requested loop to one whose steps are not all alike.
  [[nodiscard]] bool is_other_loop(const SwitchSet& set) const;
  /// The judgement of images made under a set; the reference stays valid when others are added.
  [[nodiscard]] const Judgement& judgement(const SwitchSet& set, std::string_view in_words);

  Backend& backend_;
  AutoRequest request_;
  Observer observer_;
  std::vector<std::unique_ptr<Subject>> subjects_;
  std::vector<HostTensor> baseline_;        // outputs of a forward pass without switches
  std::unique_ptr<Backend> judge_backend_;  // if images are not made on the CPU
  std::unique_ptr<ClassifierJudge> judge_;
  std::map<std::string, Judgement> judgements_;  // by set
};

}  // namespace headroom
