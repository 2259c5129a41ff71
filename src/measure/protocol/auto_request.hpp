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

/// What `auto` is to make fast: a denoise loop, or one forward pass.
struct AutoRequest {
  ForwardPass forward;                    ///< its outputs say what switches cost; timed where there is no loop
  const Pipeline* pipeline = nullptr;     ///< of the loop, with `denoise`
  std::optional<RequestOptions> denoise;  ///< its switches are those that are fixed
  std::int64_t judged_images = 500;       ///< fewer say little of a Frechet distance; more than the judge has features
};
/// Of a loop. The pipeline must outlive the request.
[[nodiscard]] AutoRequest make_auto_request(const Pipeline& pipeline, const RequestOptions& options);
/// The request as it enters the key of a cached choice.
[[nodiscard]] nlohmann::json to_json(const AutoRequest& request);

/// Ways to run a request's loop with a quarter to two thirds of the denoiser's calls, by AutoBench::cheaper_loops(): `unipc` and
/// `dpm++2m` in fewer steps (of a sampler that is fixed, that one; none where the steps are, or where the sampler adds fresh noise,
/// which models are distilled for), `meancache`, on the schedule that was calibrated for the request where there is one, and `fbcache`.
[[nodiscard]] std::vector<std::string> cheaper_loops_of(const Request& request, const SwitchSet& fixed);

/// Measures sets of switches on a real request, with random noise and prompts: a loop by its steps, two at a time and
/// with their share of what runs before them, or cheaper loops as a whole, a forward pass by itself. At most two sets are in memory, each with
/// weights of its own, and for a moment the baseline, whose output the errors are against.
class RequestBench : public AutoBench {
 public:
  /// Told how many steps of what takes long are done: of a label, so many of so many.
  using Observer = std::function<void(std::string_view label, std::int64_t done, std::int64_t total)>;

  /// What the request is made of, and the backend, must outlive the bench.
  RequestBench(Backend& backend, AutoRequest request, Observer observer = {});
  ~RequestBench() override;

  std::vector<Declined> build(const SwitchSet& set, const SwitchSet& current) override;
  double error(const SwitchSet& set) override;
  std::vector<std::string> cheaper_loops() override;
  /// By the model's judge, where it has one and the request is of its own size, of `judged_images`; else of the request's latents.
  Loss loss(const SwitchSet& set, const SwitchSet& current) override;
  PairedTimes time(const SwitchSet& a, const SwitchSet& b, double seconds) override;

 private:
  class Subject;
  [[nodiscard]] std::vector<HostTensor> outputs(const SwitchSet& set, WeightStore& weights) const;
  [[nodiscard]] Subject& subject(const SwitchSet& set, bool whole = false);
  /// Whether it is not the loop that was asked for, in which steps are all alike.
  [[nodiscard]] bool is_other_loop(const SwitchSet& set) const;
  /// Of images under a set; stays where it is while others are made.
  [[nodiscard]] const Judgement& judgement(const SwitchSet& set, std::string_view in_words);

  Backend& backend_;
  AutoRequest request_;
  Observer observer_;
  std::vector<std::unique_ptr<Subject>> subjects_;
  std::vector<HostTensor> baseline_;        // outputs of a forward pass without switches
  std::unique_ptr<Backend> judge_backend_;  // where images are not made on the CPU
  std::unique_ptr<ClassifierJudge> judge_;
  std::map<std::string, Judgement> judgements_;  // by set
};

}  // namespace headroom
