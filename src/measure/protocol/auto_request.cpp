#include "measure/protocol/auto_request.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "base/tensors/random.hpp"
#include "measure/quality/pass_error.hpp"
#include "measure/quality/quality_loss.hpp"
#include "passes/step_caches/step_cache_options.hpp"
#include "run/fit.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kImageChannels = 3;             // red, green and blue
constexpr std::int64_t kStepsAtOnce = 2;               // small, so that two sets alternate quickly
constexpr std::size_t kMinTimes = kFewestForInterval;  // of each set, even after the time limit
constexpr std::size_t kMostRounds = 25;
constexpr std::int64_t kJudgedAtOnce = 20;
constexpr std::uint64_t kJudgedSeed = 0;
constexpr std::int64_t kFewestSteps = 4;  // with fewer, a sampler of order 2 has no advantage

std::span<const Component> components_of(const AutoRequest& request) {
  if (request.pipeline != nullptr) return request.pipeline->components();
  return {request.forward.component, 1};
}

/// The request under these switches. A request that begins with an image is replaced by one that begins with noise
/// and has as many steps.
RequestOptions begun_with_noise(const Pipeline& pipeline, RequestOptions options, const SwitchSet& set) {
  options.switches = set;
  const Request request = pipeline.resolve(options);
  if (request.strength == 0) return options;
  options.switches = set.without("steps");
  options.steps = request.taken_steps();
  options.token_rows = request.token_rows;
  options.token_columns = request.token_columns;
  options.references.clear();
  options.strength.reset();
  return options;
}

/// Sets random pixels as the images to edit.
void set_references(const Pipeline& pipeline, const Request& request, std::vector<ImageRequest>& images) {
  const std::int64_t side = pipeline.token_pixels();
  for (ImageRequest& image : images)
    for (std::size_t i = 0; i < request.references.size(); ++i) {
      const auto [rows, columns] = request.references[i];
      HostTensor& pixels =
          image.references.emplace_back(DType::kF32, Shape{1, kImageChannels, rows * side, columns * side});
      fill_uniform(pixels.as<float>(), image.seed, i);
    }
}

/// The loss by assess_quality(): the worst metric, at the unfavourable end of its interval.
AutoBench::Loss loss_of(const std::vector<MeasuredLoss>& measures) {
  const std::optional<QualityLoss> loss =
      assess_quality(measures, OutputKind::kOtherLoop, std::numeric_limits<double>::infinity());
  HR_CHECK(loss && loss->worst);
  const std::string_view metric = loss->worst->metric->name;
  return {.value = loss->at_worst,
          .what = metric == "accuracy"           ? "the share of images whose label is no longer seen"
                  : metric == "frechet_distance" ? "the growth of the Frechet distance as a share"
                                                 : "the relative L2 of its latents"};
}

}  // namespace

std::vector<std::string> cheaper_loops_of(const Request& request, const SwitchSet& fixed) {
  std::vector<std::string> loops;
  const auto add_steps = [&](std::int64_t steps) {
    if (fixed.has("steps") || !follows_path(request.sampler) || steps < kFewestSteps) return;
    if (fixed.has("sampler")) return loops.push_back(fmt::format("steps={}", steps));
    for (const char* sampler : {"unipc", "dpm++2m"})
      loops.push_back(fmt::format("sampler={},steps={}", sampler, steps));
  };
  const auto add_share = [&](std::int64_t share_of, std::int64_t of) {
    const std::int64_t part = request.steps * share_of / of, calls = request.calls() * share_of / of;
    add_steps(part);
    if (calls >= 2 && calls < request.calls()) loops.push_back(fmt::format("meancache={}", calls));
  };
  add_share(1, 4);
  add_share(1, 3);
  loops.emplace_back("fbcache=0.3:taylor=1:run=5");
  loops.emplace_back("fbcache=0.2:taylor=1:run=3");
  add_share(1, 2);
  loops.emplace_back("fbcache=0.12");
  add_share(2, 3);
  loops.emplace_back("fbcache=0.06");
  return loops;
}

AutoRequest make_auto_request(const Pipeline& pipeline, const RequestOptions& options) {
  Request pass = pipeline.resolve(options);
  pass.images = pass.batch();
  return {.forward = pipeline.forward_pass(pass), .pipeline = &pipeline, .denoise = options};
}

nlohmann::json to_json(const AutoRequest& request) {
  if (!request.denoise) return request.forward.request;
  const Request denoise = request.pipeline->resolve(*request.denoise);
  nlohmann::json json = {{"pass", "denoise"},
                         {"images", denoise.images},
                         {"token_rows", denoise.token_rows},
                         {"token_columns", denoise.token_columns},
                         {"text_tokens", denoise.longest_text()},
                         {"steps", denoise.steps},
                         {"are_steps_given", request.denoise->steps != 0},
                         {"sampler", to_string(denoise.sampler)},
                         {"guidance_scale", denoise.guidance_scale},
                         {"true_cfg_scale", denoise.true_cfg_scale},
                         {"strength", denoise.strength},
                         {"classifier_free_guidance", denoise.classifier_free_guidance}};
  if (!denoise.text_lengths.empty()) json["text_lengths"] = denoise.text_lengths;
  return json;
}

/// One set of switches, ready to run: two steps of a loop, the whole loop, or a pass.
class RequestBench::Subject {
 public:
  Subject(Backend& backend, const AutoRequest& request, const SwitchSet& set, bool whole)
      : name_(set.to_string()), whole_(whole), weights_(backend, components_of(request)) {
    if (request.denoise) {
      const Pipeline& pipeline = *request.pipeline;
      RequestOptions options = begun_with_noise(pipeline, *request.denoise, set);
      if (!whole) {
        options.steps = std::min(pipeline.resolve(options).steps, kStepsAtOnce);
        options.switches = options.switches.without("steps");
      }
      generator_ = std::make_unique<Generator>(pipeline, backend, weights_, options);
      declined_ = generator_->compiled().declined;
      images_ = make_image_requests(pipeline, 0, request.denoise->images, 0);
      set_references(pipeline, generator_->request(), images_);
    } else {
      const Compiled compiled = compile(request.forward, set, backend.properties().target);
      declined_ = compiled.declined;
      require_fit(compiled, request.forward, set, weights_, backend);
      session_ = std::make_unique<Session>(compiled.program, weights_, backend);
      request.forward.set_inputs(*session_);
    }
  }

  [[nodiscard]] bool is(const SwitchSet& set, bool whole) const { return name_ == set.to_string() && whole_ == whole; }
  [[nodiscard]] const std::vector<Declined>& declined() const { return declined_; }
  [[nodiscard]] WeightStore& weights() { return weights_; }

  /// The output of the loop, always from the same noise.
  [[nodiscard]] const HostTensor& latents() {
    if (latents_.numel() == 0) latents_ = generator_->generate(images_);
    return latents_;
  }

  /// Runs once and appends the time of each step, of the whole loop, or of the pass.
  void run(std::vector<double>& times_ms) {
    if (session_) {
      const double start = steady_clock_ms();
      session_->run();
      times_ms.push_back(steady_clock_ms() - start);
      return;
    }
    const std::size_t first = times_ms.size();
    static_cast<void>(generator_->generate(images_, [&](std::int64_t, double ms) { times_ms.push_back(ms); }));
    const double share =
        (setup_ms() + generator_->session().outside_loops_ms()) / static_cast<double>(times_ms.size() - first);
    for (std::size_t i = first; i < times_ms.size(); ++i) times_ms[i] += share;
    if (!whole_) return;
    const double sum = std::accumulate(times_ms.begin() + static_cast<std::ptrdiff_t>(first), times_ms.end(), 0.0);
    times_ms.resize(first);
    times_ms.push_back(sum);
  }

 private:
  /// The time of the loop's setup in the last generation.
  [[nodiscard]] double setup_ms() const {
    const auto setup = std::ranges::find(generator_->stages(), kSetupStage, &StageRun::name);
    return setup == generator_->stages().end() ? 0 : setup->milliseconds;
  }

  std::string name_;
  bool whole_;
  WeightStore weights_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<Session> session_;
  std::vector<Declined> declined_;
  std::vector<ImageRequest> images_;
  HostTensor latents_;
};

RequestBench::RequestBench(Backend& backend, AutoRequest request, Observer observer)
    : backend_(backend), request_(std::move(request)), observer_(std::move(observer)) {}
RequestBench::~RequestBench() = default;

RequestBench::Subject& RequestBench::subject(const SwitchSet& set, bool whole) {
  const auto found = std::ranges::find_if(subjects_, [&](const auto& subject) { return subject->is(set, whole); });
  if (found != subjects_.end()) return **found;
  subjects_.push_back(std::make_unique<Subject>(backend_, request_, set, whole));
  return *subjects_.back();
}

std::vector<Declined> RequestBench::build(const SwitchSet& set, const SwitchSet& current) {
  const bool whole = is_other_loop(set);
  std::erase_if(subjects_,
                [&](const auto& subject) { return !subject->is(set, whole) && !subject->is(current, whole); });
  return subject(set, whole).declined();
}

std::vector<HostTensor> RequestBench::outputs(const SwitchSet& set, WeightStore& weights) const {
  const Compiled compiled = compile(request_.forward, set, backend_.properties().target);
  require_fit(compiled, request_.forward, set, weights, backend_);
  Session session(compiled.program, weights, backend_);
  request_.forward.set_inputs(session);
  session.run();
  return pass_outputs(request_.forward, session);
}

double RequestBench::error(const SwitchSet& set) {
  if (baseline_.empty()) {
    WeightStore weights(backend_, components_of(request_));
    baseline_ = outputs({}, weights);
  }
  return pass_error(outputs(set, subject(set).weights()), baseline_);
}

bool RequestBench::is_other_loop(const SwitchSet& set) const {
  if (!request_.denoise) return false;
  const SwitchSet& fixed = request_.denoise->switches;
  return has_step_cache(set) || set.argument("steps") != fixed.argument("steps") ||
         set.argument("sampler") != fixed.argument("sampler");
}

std::vector<std::string> RequestBench::cheaper_loops() {
  if (!request_.denoise || request_.pipeline->has_random_weights()) return {};
  const Request asked = request_.pipeline->resolve(*request_.denoise);
  SwitchSet fixed = request_.denoise->switches;
  if (request_.denoise->steps != 0) fixed = fixed.with(SwitchSet::parse(fmt::format("steps={}", asked.steps)));
  return cheaper_loops_of(asked, fixed);
}

AutoBench::Loss RequestBench::loss(const SwitchSet& set, const SwitchSet& current) {
  const Pipeline& pipeline = *request_.pipeline;
  const Request asked = pipeline.resolve(*request_.denoise), own = pipeline.resolve({.switches = {}});
  const bool is_judged = !pipeline.labels().empty() && asked.reference_tokens() == 0 &&
                         asked.token_rows == own.token_rows && asked.token_columns == own.token_columns;
  if (!is_judged) {
    const HostTensor& expected = subject(current, /*whole=*/true).latents();
    const QualityRecord error = {.metric = "relative_l2",
                                 .against = "baseline, same noise",
                                 .value = relative_l2(subject(set, /*whole=*/true).latents(), expected),
                                 .interval = {},
                                 .note = {}};
    return loss_of(measured_losses({&error, 1}, {}));
  }
  std::vector<std::string> added = set.names();
  const std::vector<std::string> before = current.names();
  std::erase_if(added, [&](const std::string& name) { return std::ranges::find(before, name) != before.end(); });
  const Judgement& base = judgement(current, "every step");
  const Judgement& changed = judgement(set, fmt::format("{}", fmt::join(added, ",")));
  return loss_of(measured_losses(quality_records(changed, &base), quality_records(base, nullptr)));
}

const Judgement& RequestBench::judgement(const SwitchSet& set, std::string_view in_words) {
  if (const auto known = judgements_.find(set.to_string()); known != judgements_.end()) return known->second;
  if (!judge_) {
    const bool on_cpu = backend_.properties().target.device == DeviceKind::kCpu;
    if (!on_cpu) judge_backend_ = make_backend(DeviceKind::kCpu);
    judge_ = request_.pipeline->open_judge(on_cpu ? backend_ : *judge_backend_);
  }
  RequestOptions options = *request_.denoise;
  options.switches = set;
  options.images = kJudgedAtOnce;
  WeightStore weights(backend_, components_of(request_));
  Generator generator(*request_.pipeline, backend_, weights, options);
  const std::string label = fmt::format("judging {} images with {}", request_.judged_images, in_words);
  const std::int64_t calls = divide_up(request_.judged_images, kJudgedAtOnce) * generator.request().calls();
  std::int64_t done = 0;
  const auto count = [&](std::int64_t, double) {
    ++done;
    if (observer_) observer_(label, done, calls);
  };
  Judgement judged = judge(*judge_, *request_.pipeline, generator, request_.judged_images, kJudgedSeed, count);
  return judgements_.emplace(set.to_string(), std::move(judged)).first->second;
}

PairedTimes RequestBench::time(const SwitchSet& a, const SwitchSet& b, double seconds) {
  const bool whole = is_other_loop(a) || is_other_loop(b);
  Subject& first = subject(a, whole);
  Subject& second = subject(b, whole);
  PairedTimes times;
  std::vector<double> warmup_ms;
  const double began_ms = steady_clock_ms();
  first.run(warmup_ms);
  second.run(warmup_ms);
  for (std::size_t round = 0; round < kMostRounds; ++round) {
    if (times.b_ms.size() >= kMinTimes && steady_clock_ms() - began_ms > 1000 * seconds) break;
    if (round % 2 == 0) first.run(times.a_ms);
    second.run(times.b_ms);
    if (round % 2 == 1) first.run(times.a_ms);
  }
  return times;
}

}  // namespace headroom
