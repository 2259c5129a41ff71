// Step caches against their definitions in plain PyTorch, in double precision (tests/goldens/make_step_caches.py): which
// steps are computed, what is held against the threshold, and latents. Qwen-Image is guided by two texts of different
// lengths, as one batch here and as two passes there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "pipelines/generator.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr double kLatentsError = 1e-5;   // relative L2
constexpr double kDistanceError = 1e-4;  // of a distance; none is that near its threshold

fs::path sources() { return source_dir(kSourceDir); }
fs::path step_cache_goldens() { return sources() / "tests/goldens/step_caches"; }

/// A denoise loop of the goldens on a device.
class Loop {
 public:
  Loop(const std::string& name, DeviceKind device)
      : name_(name),
        case_(read_json(step_cache_goldens() / "cases.json").at(name)),
        golden_(SafetensorsFile::open(step_cache_goldens() / "golden.safetensors")),
        pipeline_(open_pipeline(folder(case_.at("model")).string())),
        backend_(make_backend(device)),
        weights_(std::make_unique<WeightStore>(*backend_, pipeline_->components())) {
    request_ = pipeline_->resolve({.images = case_.at("images"),
                                   .token_rows = case_.at("token_rows"),
                                   .token_columns = case_.at("token_columns"),
                                   .text_tokens = case_.value("text_tokens", std::int64_t{0}),
                                   .text_lengths = case_.value("text_lengths", std::vector<std::int64_t>()),
                                   .steps = case_.at("steps"),
                                   .guidance_scale = case_.contains("guidance")
                                                         ? std::optional(case_.at("guidance").get<double>())
                                                         : std::nullopt,
                                   .true_cfg_scale = case_.at("true_cfg").get<double>(),
                                   .switches = {}});
  }

  [[nodiscard]] const nlohmann::json& runs() const { return case_.at("runs"); }
  [[nodiscard]] HostTensor expected(const std::string& run, const std::string& what) const {
    return golden_.read(fmt::format("{}.{}{}{}", name_, run, run.empty() ? "" : ".", what));
  }
  [[nodiscard]] bool has_distances(const std::string& run) const {
    return golden_.entries().contains(fmt::format("{}.{}.distances", name_, run));
  }

  void compile(const std::string& switches) {
    const Compiled compiled =
        compile_denoise(*pipeline_, request_, SwitchSet::parse(switches), backend_->properties().target);
    session_ = std::make_unique<Session>(compiled.program, *weights_, *backend_);
    for (const Declined& declined : compiled.declined) declined_.push_back(declined.switch_name);
    pipeline_->set_request_inputs(*session_, request_);
    for (const char* input : {"encoder_hidden_states", "pooled_projections"})
      if (golden_.has(name_ + "." + input)) session_->set_input(input, expected("", input));
    // As an earlier request may have left them.
    const Graph& graph = compiled.program->graph;
    for (const ValueId state : graph.values_of(ValueKind::kState)) {
      HostTensor tensor(graph.type(state).dtype, graph.type(state).shape);
      for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, 3);
      session_->set_state(graph.value(state).name, tensor);
    }
  }

  /// Makes the request anew, and holds what comes of it against the golden.
  void expect_golden(const std::string& run) {
    session_->set_state("latents", expected("", "noise"));
    session_->run();
    const HostTensor computed = session_->output(kComputedSteps);
    std::string digits;
    for (std::int64_t step = 0; step < computed.numel(); ++step) digits += computed.at(step) != 0 ? '1' : '0';
    EXPECT_EQ(digits, runs().at(run).at("computed").get<std::string>());
    EXPECT_LE(relative_l2(session_->output("latents"), expected(run, "latents")), kLatentsError);
    if (!has_distances(run)) return;
    const HostTensor distances = session_->output(kCacheDistances), golden = expected(run, "distances");
    for (std::int64_t step = 0; step < distances.numel(); ++step)
      EXPECT_NEAR(distances.at(step), golden.at(step), kDistanceError * golden.at(step)) << step;
  }
  [[nodiscard]] const std::vector<std::string>& declined() const { return declined_; }

 private:
  [[nodiscard]] static fs::path folder(const std::string& model) {
    return sources() / (model.starts_with("goldens/") ? "tests" : "models") / model;
  }

  std::string name_;
  nlohmann::json case_;
  SafetensorsFile golden_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<WeightStore> weights_;
  Request request_;
  std::unique_ptr<Session> session_;
  std::vector<std::string> declined_;
};

/// All cases under the last set of switches, and those that take no time under the others as well.
void expect_goldens(DeviceKind device, const std::vector<std::string>& sets) {
  const nlohmann::json cases = read_json(step_cache_goldens() / "cases.json");
  for (const auto& [name, unused] : cases.items()) {
    Loop loop(name, device);
    EXPECT_GE(loop.runs().size(), 8);
    bool is_first = true;
    for (const auto& [run, also_unused] : loop.runs().items())
      for (const std::string& switches : sets) {
        if (name == "fashion-flux" && switches != sets.back()) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", name, run, switches));
        loop.compile(fmt::format("{}{}{}", switches, switches.empty() ? "" : ",", run));
        EXPECT_THAT(loop.declined(),
                    testing::Not(testing::Contains(testing::AnyOf("fbcache", "teacache", "meancache"))));
        loop.expect_golden(run);
        if (std::exchange(is_first, false)) loop.expect_golden(run);  // an equal request again
      }
  }
}

TEST(StepCaches, AreTheirDefinitionsInPyTorch) { expect_goldens(DeviceKind::kCpu, {"arena", "lossless"}); }

using GpuStepCaches = GpuTest;

TEST_F(GpuStepCaches, AreTheirDefinitionsInPyTorch) { expect_goldens(DeviceKind::kCuda, {"", "lossless"}); }

TEST(StepCaches, DeclineAloneWhereTheyFindNoStream) {
  // Text and image go through single blocks as one stream, of which a part is read.
  const auto pipeline = open_pipeline((sources() / "tests/goldens/flux/tiny-no-double").string());
  const auto backend = make_backend(DeviceKind::kCpu);
  const Request request =
      pipeline->resolve({.token_rows = 2, .token_columns = 2, .text_tokens = 3, .steps = 3, .switches = {}});
  const Compiled compiled =
      compile_denoise(*pipeline, request, SwitchSet::parse("arena,fbcache=0.1"), backend->properties().target);
  ASSERT_EQ(compiled.declined.size(), 1);
  EXPECT_EQ(compiled.declined[0].switch_name, "fbcache");
  EXPECT_THAT(compiled.declined[0].reason, testing::HasSubstr("no residual stream"));
}

/// A generator clears what a cache carries along, and its requests do not depend on those before.
TEST(StepCaches, EqualRequestsGiveEqualImages) {
  const auto pipeline = open_pipeline("fashion-flux");
  const auto backend = make_backend(DeviceKind::kCpu);
  WeightStore weights(*backend, pipeline->components());
  Generator generator(*pipeline, *backend, weights,
                      {.images = 1, .steps = 8, .switches = SwitchSet::parse("lossless,fbcache=0.3:taylor=1")});
  const std::vector<ImageRequest> boot = {{.label = 9, .seed = 1}}, bag = {{.label = 8, .seed = 2}};
  const HostTensor first = generator.generate(boot);
  const std::vector<bool> computed = generator.computed_steps();
  EXPECT_THAT(computed, testing::Contains(false));
  EXPECT_THAT(computed, testing::Contains(true));
  const HostTensor other = generator.generate(bag);
  const HostTensor again = generator.generate(boot);
  EXPECT_EQ(generator.computed_steps(), computed);
  EXPECT_TRUE(std::ranges::equal(first.bytes(), again.bytes()));
  EXPECT_FALSE(std::ranges::equal(first.bytes(), other.bytes()));
}

TEST(StepCaches, OfRandomWeightsNeedASchedule) {
  const auto pipeline = open_pipeline("flux-128x1+1", {.random_seed = 0});
  const auto backend = make_backend(DeviceKind::kCpu);
  WeightStore weights(*backend, pipeline->components());
  RequestOptions options{
      .token_rows = 2, .token_columns = 2, .text_tokens = 3, .steps = 4, .switches = SwitchSet::parse("fbcache=0.1")};
  try {
    Generator generator(*pipeline, *backend, weights, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("give it a schedule"));
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
  options.switches = SwitchSet::parse("fbcache=0.1:schedule=10");
  Generator generator(*pipeline, *backend, weights, options);
  static_cast<void>(generator.generate(make_image_requests(*pipeline, 0, 1, 0)));
  EXPECT_EQ(generator.computed_steps(), (std::vector<bool>{true, false, true, false}));
}

}  // namespace
}  // namespace headroom
