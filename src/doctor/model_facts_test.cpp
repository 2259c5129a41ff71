#include "doctor/model_facts.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/test_paths.hpp"
#include "doctor/report.hpp"
#include "doctor/test_util.hpp"
#include "pipelines/generator.hpp"

namespace headroom::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// fashion-flux, which has 8 layers of attention.
class ModelFactsTest : public testing::Test {
 protected:
  static constexpr int kLayers = 8;

  [[nodiscard]] ModelFacts facts_with(const std::string& switches, Target target) const {
    const SwitchSet set = SwitchSet::parse(switches);
    const Request request =
        pipeline_->resolve({.images = 1, .token_rows = 2, .token_columns = 2, .steps = 2, .switches = set});
    const Compiled compiled = compile_denoise(*pipeline_, request, set, backend_->properties().target);
    return look_at_plan(
        compiled, set, [](std::string_view name) { return name == "graph"; }, target);
  }
  [[nodiscard]] ModelFacts facts_with(const std::string& switches) const {
    return facts_with(switches, backend_->properties().target);
  }
  [[nodiscard]] static std::vector<Finding> findings_of(const ModelFacts& facts) {
    return run_checks(model_checks(), facts);
  }
  /// A CPU without units for bf16.
  [[nodiscard]] Target plain_cpu() const {
    Target target = backend_->properties().target;
    target.cpu_isa = CpuIsa::kAvx2;
    return target;
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline((source_dir(kSourceDir) / "models/fashion-flux").string());
};

TEST_F(ModelFactsTest, ScoresAreInMemoryWithoutFlash) {
  const ModelFacts facts = facts_with("arena,fuse", plain_cpu());
  EXPECT_EQ(facts.attention_in_tiles, 0);
  EXPECT_EQ(facts.attention_in_memory.size(), std::size_t{kLayers});
  const Finding finding = only_finding(findings_of(facts), "scores-in-memory");
  EXPECT_EQ(finding.sentence, "The scores of 8 of 8 attention layers are written to memory and read again.");
  EXPECT_THAT(finding.evidence[0].value, StartsWith("transformer_blocks.0.attn"));
  EXPECT_THAT(finding.evidence[0].value, HasSubstr("and 6 more"));
  EXPECT_EQ(finding.evidence[1].value, "arena,fuse");
  EXPECT_EQ(finding.mend, "--opt arena,fuse,flash");
}

TEST_F(ModelFactsTest, LeavingOutASwitchCostsWhatWasPredictedOrMeasured) {
  ModelFacts facts = facts_with("arena", plain_cpu());
  const auto finding = [&] { return only_finding(findings_of(facts), "scores-in-memory"); };
  EXPECT_EQ(finding().cost.words, "memory that grows with the square of the tokens, and the time to move it");
  SwitchPrediction& flash = facts.predictions.emplace_back();
  flash.name = "flash";
  flash.by_each = {.ms = 8, .factor = 1.25, .error = 0.04};
  EXPECT_EQ(finding().cost.words, "a step takes 1.25 times as long as with flash (predicted, ±4%)");
  EXPECT_EQ(finding().severity, Severity::kCould);
  flash.measured = Estimate{.value = 1.5, .interval = {}};
  EXPECT_EQ(finding().cost.words, "a step takes 1.50 times as long as with flash (measured)");
  EXPECT_EQ(finding().cost.factor, 1.5);
  EXPECT_EQ(finding().severity, Severity::kWrong);
  flash.measured = Estimate{.value = 0.5, .interval = {}};
  EXPECT_EQ(finding().cost.words, "nothing: a step takes no less time with flash (measured)");
  EXPECT_EQ(finding().severity, Severity::kCould);
  flash.declined = "no such attention";
  EXPECT_EQ(finding().cost.factor, std::nullopt);
}

TEST_F(ModelFactsTest, AttentionIsInTilesWithFlash) {
  const ModelFacts facts = facts_with("arena,flash", plain_cpu());
  EXPECT_EQ(facts.attention_in_tiles, kLayers);
  EXPECT_THAT(facts.attention_in_memory, IsEmpty());
  EXPECT_THAT(findings_of(facts), IsEmpty());
}

TEST_F(ModelFactsTest, APartlyFlashedNetworkNamesItsOtherLayers) {
  ModelFacts facts = facts_with("arena,flash", plain_cpu());
  facts.attention_in_tiles -= 2;
  facts.attention_in_memory = {"blocks.3.attn", "blocks.7.attn"};
  const Finding finding = only_finding(findings_of(facts), "scores-in-memory");
  EXPECT_EQ(finding.sentence, "The scores of 2 of 8 attention layers are written to memory and read again.");
  EXPECT_EQ(finding.evidence[0].value, "blocks.3.attn, blocks.7.attn");
  EXPECT_EQ(finding.evidence[1].value, "matched only some layers");
}

TEST_F(ModelFactsTest, TellsWhatComputesInWhat) {
  const ModelFacts facts = facts_with("arena,flash", plain_cpu());
  std::int64_t launches = 0;
  for (const WorkFacts& work : facts.work) {
    launches += work.launches;
    if (work.kind == WorkKind::kOther) continue;
    EXPECT_EQ(work.computes, "f32");
    EXPECT_EQ(work.stores, "f32");
    EXPECT_GT(work.flops, 0);
  }
  EXPECT_GT(launches, 100);
  EXPECT_EQ(facts.work.front().kind, WorkKind::kMatmul);
  Printout printout;
  describe_work(facts, printout);
  EXPECT_THAT(printout.text(), HasSubstr("attention: 8 of 8 layers tile by tile, with the switches arena,flash\n"));
}

TEST_F(ModelFactsTest, F32IsFoundWhereThereAreUnitsForBf16) {
  Target amx = backend_->properties().target;
  amx.cpu_isa = CpuIsa::kAmx;
  const ModelFacts facts = facts_with("arena,flash", amx);
  ASSERT_TRUE(facts.has_bf16_units);
  const Finding finding = only_finding(findings_of(facts), "f32-with-bf16-units");
  EXPECT_EQ(finding.severity, Severity::kCould);
  EXPECT_EQ(finding.mend, "--opt arena,flash,bf16");
}

TEST_F(ModelFactsTest, ANamedSwitchThatDeclinedIsFoundWithItsReason) {
  const Finding finding =
      only_finding(findings_of(facts_with("arena,flash,graph,streams", plain_cpu())), "switch-declined");
  EXPECT_EQ(finding.sentence, "The switch graph did not apply.") << "streams was not named";
  EXPECT_FALSE(finding.evidence[0].value.empty());
}

TEST_F(ModelFactsTest, ProfilesGiveTimesAndFloorsOfAStep) {
  WeightStore weights(*backend_, pipeline_->components());
  const SwitchSet switches = SwitchSet::parse("arena,flash");
  Generator generator(*pipeline_, *backend_, weights,
                      {.images = 1, .token_rows = 2, .token_columns = 2, .steps = 3, .switches = switches});
  const ImageRequest image{.label = 1, .seed = 2};
  Profile measured = profile({generator.session(),
                              [&](const IterationObserver& observer) {
                                static_cast<void>(generator.generate(std::span(&image, 1), observer));
                              }},
                             *backend_, {.trials = 3, .floor_seconds = 0.01});
  ModelFacts facts = look_at_plan(
      generator.compiled(), switches, [](std::string_view) { return false; }, plain_cpu());
  add_times(facts, measured, generator.session().program());
  double launches_ms = 0, floors_ms = 0;
  for (const WorkFacts& work : facts.work) {
    launches_ms += work.time_ms.value_or(0);
    floors_ms += work.floor_ms.value_or(0);
  }
  EXPECT_NEAR(launches_ms, measured.step_launches_ms, 1e-9 * launches_ms);
  EXPECT_NEAR(floors_ms, measured.step_floor_ms(), 1e-9 * floors_ms);
  EXPECT_EQ(facts.step_ms, measured.step_ms());
  facts.disturbances = {};
  EXPECT_THAT(findings_of(facts), IsEmpty());
  facts.disturbances = {"the steps: other work held the CPUs"};
  EXPECT_EQ(only_finding(findings_of(facts), "profile-disturbed").severity, Severity::kUnknown);
  ASSERT_EQ(facts.parts.size(), 4U);
  EXPECT_EQ(facts.parts[0].bound, "products");
  EXPECT_EQ(facts.parts[1].bound, "attention");
  EXPECT_GT(facts.parts[1].floor_ms, 0);
  EXPECT_EQ(facts.parts[2].bound, "bytes");
  EXPECT_NEAR(facts.parts[0].time_ms + facts.parts[1].time_ms + facts.parts[2].time_ms, launches_ms,
              1e-9 * launches_ms);
  EXPECT_NEAR(facts.parts[0].floor_ms + facts.parts[1].floor_ms + facts.parts[2].floor_ms, floors_ms, 1e-9 * floors_ms);
  EXPECT_EQ(facts.parts[3].bound, "host");
  EXPECT_NEAR(facts.parts[3].time_ms, std::max(0.0, *facts.step_ms - launches_ms), 1e-9 * launches_ms);
  const nlohmann::json json = to_json(Report{.facts = {}, .model = facts, .findings = {}});
  EXPECT_EQ(json.at("work").at("step_ms"), *facts.step_ms);
  EXPECT_EQ(json.at("work").at("parts").at(1).at("bound"), "attention");

  ModelFacts on_gpu = look_at_plan(
      generator.compiled(), switches, [](std::string_view) { return false; }, plain_cpu());
  on_gpu.has_launches = true;
  measured.launches.idle_share = 0.25;
  measured.steps = {{.wall_ms = {4 * launches_ms}}};
  add_times(on_gpu, measured, generator.session().program());
  ASSERT_EQ(on_gpu.parts.size(), 5U);
  EXPECT_EQ(on_gpu.parts[3].bound, "launches");
  EXPECT_NEAR(on_gpu.parts[3].time_ms, launches_ms, 1e-9 * launches_ms);
  EXPECT_NEAR(on_gpu.parts[4].time_ms, 2 * launches_ms, 1e-6 * launches_ms);
}

TEST_F(ModelFactsTest, GapsBetweenLaunchesAreFoundOnAGpuWithoutGraph) {
  ModelFacts facts = facts_with("arena,flash", plain_cpu());
  facts.step_ms = 10;
  facts.idle_share = 0.5;
  EXPECT_THAT(findings_of(facts), IsEmpty()) << "a CPU has no launches";
  facts.has_launches = true;
  const Finding finding = only_finding(findings_of(facts), "launch-gaps");
  EXPECT_EQ(finding.mend, "--opt arena,flash,graph");
  EXPECT_EQ(finding.cost.factor, 2);
  facts.records = true;
  EXPECT_THAT(findings_of(facts), IsEmpty());
}

}  // namespace
}  // namespace headroom::doctor
