// Ladders of one pass: of an autoencoder, and of a simulated machine that times it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/out_of_memory.hpp"
#include "base/test_paths.hpp"
#include "measure/protocol/ladder.hpp"
#include "measure/quality/pass_error.hpp"
#include "measure/results/describe.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSubsetOf;
using testing::Not;

class PassLadder : public testing::Test {
 protected:
  /// With `fuse` the inputs differ. This simulates a switch that rounds, because not every CPU has one.
  [[nodiscard]] LadderPass decode() const {
    return {.components = {&vae_, 1}, .make = [this](const SwitchSet& switches) {
              ForwardPass pass =
                  make_forward_pass(vae_, pass_named(*vae_.kind, "decode"), {.batch = 1, .height = 16, .width = 16});
              if (switches.has("fuse"))
                pass.set_inputs = [set = pass.set_inputs](Session& session) {
                  set(session);
                  const Graph& graph = session.program().graph;
                  const Value& input = graph.value(graph.values_of(ValueKind::kInput).front());
                  HostTensor latents(DType::kF32, input.type.shape);
                  std::ranges::fill(latents.as<float>(), 0.5F);
                  session.set_input(input.name, convert(latents, input.type.dtype));
                };
              return pass;
            }};
  }
  [[nodiscard]] static LadderOptions options() {
    LadderOptions options;
    options.warmup_steps = 2;
    options.min_trials = 3;
    return options;
  }

  Component vae_ = open_component(std::string(kSourceDir) + "/tests/goldens/vae/tiny");
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
};

const QualityRecord& error_of_rung(const Rung& rung) {
  EXPECT_EQ(rung.result.quality.size(), 1U) << rung.name;
  EXPECT_EQ(rung.result.quality.at(0).metric, "relative_l2") << rung.name;
  return rung.result.quality.at(0);
}

TEST_F(PassLadder, TellsOfNoMoreRoundsThanThereAre) {
  Ladder ladder = make_ladder(SwitchSet::parse("arena"));
  std::set<std::int64_t> told;
  climb(ladder, 2, 2, run_rounds_here(decode(), *backend_, options(), 0, {.on_progress = [&](const LadderProgress& at) {
                                        told.insert(at.round);
                                      }}));
  EXPECT_THAT(told, ElementsAre(0, 1)) << "the baseline's last visit belongs to the round before it";
}

TEST_F(PassLadder, TellsTimesAndTheErrorOfEachRung) {
  Ladder ladder = make_ladder(SwitchSet::parse("arena,fuse,fp8"));
  std::map<std::string, LadderProgress> last;
  const RoundRun run = run_rounds_here(decode(), *backend_, options(), 4,
                                       {.on_progress = [&](const LadderProgress& at) { last[at.rung] = at; }});
  climb(ladder, 2, 2, run);
  const Rung& baseline = ladder.rungs.at(0);
  EXPECT_EQ(error_of_rung(baseline).value, 0);
  EXPECT_EQ(error_of_rung(ladder.rungs.at(1)).value, 0) << "arena moves nothing";
  EXPECT_EQ(error_of_rung(ladder.rungs.at(1)).against, "baseline, same inputs");
  EXPECT_GT(error_of_rung(ladder.rungs.at(2)).value.value(), 1e-4);
  EXPECT_EQ(ladder.rungs.at(3).result.same_as, "baseline") << "fp8 is for GPUs";
  EXPECT_EQ(error_of_rung(ladder.rungs.at(3)).value, 0);
  EXPECT_EQ(ladder.rungs.at(5).result.same_as, "arena+fuse");
  EXPECT_EQ(error_of_rung(ladder.rungs.at(5)).value, error_of_rung(ladder.rungs.at(4)).value);

  const TrialSeries& passes = timed_series(baseline.result);
  EXPECT_EQ(passes.what, "forward");
  // A visit that other work disturbed may be left out. Every other one has all its trials.
  const std::set<std::int64_t> visits(passes.round.begin(), passes.round.end());
  EXPECT_THAT(visits, AllOf(Not(IsEmpty()), IsSubsetOf({0, 1, 2})));
  for (const std::int64_t visit : visits) EXPECT_EQ(std::ranges::count(passes.round, visit), 3) << visit;
  EXPECT_THAT(passes.process, Each(4));
  EXPECT_EQ(baseline.result.subject, describe_pass(decode().make({})));
  for (const auto& [rung, at] : last) {
    EXPECT_EQ(at.steps_total, 5) << rung;
    EXPECT_EQ(at.steps_done, 5) << rung;
  }
  EXPECT_EQ(baseline.image_ms, passes.statistics.median);
  const ResultFile file = results_from_json(to_json(to_results(ladder)), "the ladder");
  EXPECT_EQ(file.results.size(), 6U);
  EXPECT_THAT(to_table(ladder).text(),
              AllOf(HasSubstr("a pass"), HasSubstr("relative L2"), Not(HasSubstr("an image")), Not(HasSubstr("PSNR"))));
}

TEST_F(PassLadder, ComparesWithABaselineOfItsOwnWhereItGoesOn) {
  Ladder ladder = make_ladder(SwitchSet::parse("fuse"));
  run_rounds_here(decode(), *backend_, options(), 0)(ladder, 0, {});
  run_rounds_here(decode(), *backend_, options(), 1)(ladder, 0, std::vector<std::size_t>{1});
  EXPECT_GT(error_of_rung(ladder.rungs.at(1)).value.value(), 1e-4);
}

TEST_F(PassLadder, RecordsARungThatDoesNotFit) {
  LimitedBackend backend(std::size_t{1} << 40);
  Ladder ladder = make_ladder(SwitchSet::parse("arena"));
  const RoundRun run = run_rounds_here(decode(), backend, options(), 0,
                                       {.on_visited = [&] { backend.set_limit(std::size_t{1} << 10); }});
  EXPECT_THROW(run(ladder, 0, std::vector<std::size_t>{1}), OutOfMemory) << "the baseline that comes after it";
  EXPECT_TRUE(is_out_of_memory(ladder.rungs.at(1).result));
  EXPECT_EQ(ladder.rungs.at(1).result.id, "arena");
}

TEST(PassError, IsThatOfTheWorstOutputAndNeverLosesANan) {
  HostTensor one(DType::kF32, {2}), two(DType::kF32, {2}), broken(DType::kF32, {2});
  one.as<float>()[0] = two.as<float>()[0] = 1;
  two.as<float>()[1] = 0.5F;
  broken.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(pass_error(std::vector{one, two}, std::vector{one, one}), 0.5);
  EXPECT_EQ(pass_error(std::vector{one}, std::vector{one}), 0);
  EXPECT_TRUE(std::isnan(pass_error(std::vector{broken, one}, std::vector{one, one})));
}

}  // namespace
}  // namespace headroom
