#include "measure/auto_request.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "measure/forward_pass.hpp"
#include "run/fit.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kStepsAtOnce = 2;  // short, so that two sets alternate quickly
constexpr std::size_t kMinTimes = 4;      // of each set, even when time is up: fewer have no interval to speak of
constexpr std::size_t kMaxRounds = 25;

/// The columns of a grid of `tokens`, as near to a square as divides them.
std::int64_t grid_columns(std::int64_t tokens) {
  auto columns = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tokens)));
  while (tokens % columns != 0) --columns;
  return tokens / columns;
}

}  // namespace

nlohmann::json to_json(const Model& model, const AutoRequest& request) {
  if (!request.denoise)
    return {{"pass", "forward"},
            {"batch", request.forward.batch},
            {"image_tokens", request.forward.image_tokens},
            {"text_tokens", request.forward.text_tokens}};
  const DenoiseRequest denoise = make_request(model, *request.denoise);
  return {{"pass", "denoise"},
          {"images", denoise.images},
          {"token_rows", denoise.token_rows},
          {"token_columns", denoise.token_columns},
          {"text_tokens", denoise.text_tokens},
          {"steps", denoise.steps},
          {"classifier_free_guidance", denoise.classifier_free_guidance}};
}

/// One set of switches, ready to run.
class RequestBench::Subject {
 public:
  Subject(const Model& model, Backend& backend, const AutoRequest& request, const SwitchSet& set)
      : name_(set.to_string()), weights_(backend, model.checkpoint) {
    if (request.denoise) {
      GeneratorOptions options = *request.denoise;
      options.steps = std::min(make_request(model, options).steps, kStepsAtOnce);
      options.switches = set.without("steps");
      generator_ = std::make_unique<Generator>(model, backend, weights_, options);
      declined_ = generator_->compiled().declined;
    } else {
      const Compiled compiled = compile_forward(model, request.forward, set, backend.properties().target);
      declined_ = compiled.declined;
      require_forward_fit(compiled, model, request.forward, {.images = request.forward.batch}, set, weights_, backend);
      session_ = std::make_unique<Session>(compiled.program, weights_, backend);
      set_forward_inputs(*session_, model, grid_columns(request.forward.image_tokens));
    }
    if (request.denoise) images_ = make_image_requests(model, 0, request.denoise->images, 0);
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<Declined>& declined() const { return declined_; }
  [[nodiscard]] WeightStore& weights() { return weights_; }

  /// Runs once and adds the time of each step, or of the pass.
  void run(std::vector<double>& times_ms) {
    if (session_) {
      const double start = steady_clock_ms();
      session_->run();
      times_ms.push_back(steady_clock_ms() - start);
      return;
    }
    const std::size_t first = times_ms.size();
    static_cast<void>(generator_->generate(images_, [&](std::int64_t, double ms) { times_ms.push_back(ms); }));
    const double share = generator_->session().outside_loops_ms() / static_cast<double>(times_ms.size() - first);
    for (std::size_t i = first; i < times_ms.size(); ++i) times_ms[i] += share;
  }

 private:
  std::string name_;
  WeightStore weights_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<Session> session_;
  std::vector<Declined> declined_;
  std::vector<ImageRequest> images_;
};

RequestBench::RequestBench(const Model& model, Backend& backend, const AutoRequest& request)
    : model_(model), backend_(backend), request_(request) {
  if (!request_.denoise) return;
  const DenoiseRequest denoise = make_request(model, *request_.denoise);
  request_.forward = {
      .batch = denoise.batch(), .image_tokens = denoise.image_tokens(), .text_tokens = denoise.text_tokens};
}
RequestBench::~RequestBench() = default;

RequestBench::Subject& RequestBench::subject(const SwitchSet& set) {
  const std::string name = set.to_string();
  const auto found = std::ranges::find_if(subjects_, [&](const auto& subject) { return subject->name() == name; });
  if (found != subjects_.end()) return **found;
  subjects_.push_back(std::make_unique<Subject>(model_, backend_, request_, set));
  return *subjects_.back();
}

std::vector<Declined> RequestBench::build(const SwitchSet& set, const SwitchSet& current) {
  std::erase_if(subjects_, [&](const auto& subject) {
    return subject->name() != set.to_string() && subject->name() != current.to_string();
  });
  return subject(set).declined();
}

HostTensor RequestBench::forward_output(const SwitchSet& set, WeightStore& weights) const {
  const Compiled compiled = compile_forward(model_, request_.forward, set, backend_.properties().target);
  require_forward_fit(compiled, model_, request_.forward, {.images = request_.forward.batch}, set, weights, backend_);
  Session session(compiled.program, weights, backend_);
  set_forward_inputs(session, model_, grid_columns(request_.forward.image_tokens));
  session.run();
  return session.output("sample");
}

double RequestBench::error(const SwitchSet& set) {
  if (!baseline_) {
    WeightStore weights(backend_, model_.checkpoint);
    baseline_ = forward_output({}, weights);
  }
  return relative_l2(forward_output(set, subject(set).weights()), *baseline_);
}

PairedTimes RequestBench::time(const SwitchSet& a, const SwitchSet& b, double seconds) {
  Subject& first = subject(a);
  Subject& second = subject(b);
  PairedTimes times;
  std::vector<double> warmup_ms;
  const double began_ms = steady_clock_ms();
  first.run(warmup_ms);
  second.run(warmup_ms);
  for (std::size_t round = 0; round < kMaxRounds; ++round) {
    if (times.b_ms.size() >= kMinTimes && steady_clock_ms() - began_ms > 1000 * seconds) break;
    if (round % 2 == 0) first.run(times.a_ms);
    second.run(times.b_ms);
    if (round % 2 == 1) first.run(times.a_ms);
  }
  return times;
}

}  // namespace headroom
