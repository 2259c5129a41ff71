// Programs that are replayed as a whole: on a CPU with a backend that executes regions itself and exposes its inputs,
// and on a GPU that executes regions. All results are compared with the interpreter.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "backends/region_recording.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "plan/plan.hpp"
#include "run/session/semantic_cases.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::StartsWith;

/// A CPU that submits a recording's work again at each replay, and executes its regions.
class RegionCpu final : public ForwardingBackend, public RegionBackend {
 public:
  /// From now on, recording of regions fails with this obstacle, at the first launch in a region if there is one.
  void refuse(std::string obstacle) {
    refuses_ = true;
    obstacle_ = std::move(obstacle);
  }

  [[nodiscard]] std::unique_ptr<Recording> record(Stream& /*stream*/, const std::function<void()>& submit) override {
    return std::make_unique<Straight>(submit);
  }
  [[nodiscard]] std::unique_ptr<RegionRecording> record_regions(
      Stream& /*stream*/, const std::function<void(RegionRecorder& recorder)>& submit) override {
    if (refuses_) fail("the driver said no");
    return std::make_unique<Whole>(*this, submit);
  }
  [[nodiscard]] std::string obstacle_in_region(Stream& /*stream*/, const std::function<void()>& /*submit*/) override {
    return obstacle_;
  }

 private:
  class Straight final : public Recording {
   public:
    explicit Straight(std::function<void()> submit) : submit_(std::move(submit)) {}
    void replay(Stream& /*stream*/) override { submit_(); }

   private:
    std::function<void()> submit_;
  };

  class Recorder final : public RegionRecorder {
   public:
    Recorder(Backend& backend, const IterationObserver& observer) : backend_(backend), observer_(observer) {}
    void loop(Stream& stream, std::int64_t trip_count, DevicePointer counter, Stream& inside,
              const std::function<void()>& body) override {
      EXPECT_NE(&stream, &inside);
      for (std::int32_t i = 0; i < trip_count; ++i) {
        if (counter) backend_.copy_from_host(stream, counter, &i, sizeof i);
        run(body);
        if (depth_ == 0 && observer_) observer_(i, 1.0);
      }
    }
    void branch(Stream& stream, DevicePointer predicate, Stream& inside, const std::function<void()>& then,
                const std::function<void()>& otherwise) override {
      EXPECT_NE(&stream, &inside);
      const std::function<void()>& chosen = *predicate.address<bool>() ? then : otherwise;
      if (chosen) run(chosen);
    }

   private:
    void run(const std::function<void()>& body) {
      ++depth_;
      body();
      --depth_;
    }

    Backend& backend_;
    const IterationObserver& observer_;
    int depth_ = 0;
  };

  class Whole final : public RegionRecording {
   public:
    Whole(Backend& backend, std::function<void(RegionRecorder&)> submit)
        : backend_(backend), submit_(std::move(submit)) {}
    void replay(Stream& stream) override { replay_observed(stream, {}); }
    void replay_observed(Stream& /*stream*/, const IterationObserver& observer) override {
      Recorder recorder(backend_, observer);
      submit_(recorder);
    }

   private:
    Backend& backend_;
    std::function<void(RegionRecorder&)> submit_;
  };

  bool refuses_ = false;
  std::string obstacle_;
};

/// A graph with a weight, in a session that records.
class Recorded {
 public:
  Recorded(Backend& backend, Graph graph, const PlanOptions& options)
      : graph_(std::move(graph)),
        weights_(backend, checkpoint_),
        session_(std::make_shared<Program>(plan(graph_, backend.properties().target, options)), weights_, backend) {
    for (const ValueId state : graph_.values_of(ValueKind::kState)) {
      const std::string& name = graph_.value(state).name;
      states_[name] = random_tensor(graph_.type(state), 100 + index_of(state));
      session_.set_state(name, states_[name]);
    }
  }

  [[nodiscard]] Session& session() { return session_; }

  void set_inputs(std::uint64_t seed) {
    for (const ValueId input : graph_.values_of(ValueKind::kInput)) {
      const std::string& name = graph_.value(input).name;
      inputs_[name] = random_tensor(graph_.type(input), name == "hit" ? seed / 2 : 10 * seed + index_of(input));
      session_.set_input(name, inputs_[name]);
    }
  }

  /// Compares the results of a run with those of the interpreter for the same initial state.
  void expect_run() {
    const OracleResult oracle = interpret(graph_, inputs_, {{"w", checkpoint_.read("w")}}, states_);
    for (const auto& [name, tensor] : oracle.outputs) {
      SCOPED_TRACE(name);
      ASSERT_NO_FATAL_FAILURE(expect_near(session_.output(name), tensor));
    }
    for (const auto& [name, tensor] : oracle.states) {
      SCOPED_TRACE(name);
      states_[name] = session_.state(name);
      ASSERT_NO_FATAL_FAILURE(expect_near(states_[name], tensor));
    }
  }

 private:
  Graph graph_;
  Checkpoint checkpoint_ =
      Checkpoint::random(nlohmann::json::object(), {{.name = "w", .dtype = DType::kF32, .shape = {4, 4}}}, 5);
  WeightStore weights_;
  Session session_;
  NamedTensors inputs_, states_;
};

Graph case_graph(const SemanticCase& tried) {
  Graph graph = parse_graph(std::string(kSemanticDeclarations) + tried.body + "\n}\n");
  verify(graph);
  return graph;
}

/// Two independent chains, before a loop and in it.
constexpr SemanticCase kChains = {"ChainsRunConcurrently", R"(
  %1: f32[4, 4] = silu(%x)
  %2: f32[4, 4] = relu(%x)
  %3: f32[4, 4] = mul(%1, %1)
  %4: f32[4, 4] = mul(%2, %2)
  loop 3 %i {
    %5: f32[4, 4] = row(%d, %i)
    %6: f32[4, 4] = mul(%5, %3)
    %7: f32[4, 4] = mul(%5, %4)
    %8: f32[4, 4] = silu(%6)
    %9: f32[4, 4] = relu(%7)
    if %hit {
      %10: f32[4, 4] = add(%8, %s)
      %11: f32[4, 4] = add(%9, %t)
      next %s = %10
      next %t = %11
    }
  }
  %12: f32[4, 4] = silu(%s)
  %13: f32[4, 4] = silu(%t)
  %14: f32[4, 4] = add(%12, %13)
  output y = %14)"};

std::vector<SemanticCase> all_cases() {
  std::vector<SemanticCase> cases(std::begin(kSemanticCases), std::end(kSemanticCases));
  cases.push_back(kChains);
  return cases;
}

/// Empty if there was no obstacle.
ReplayObstacle obstacle_of(const Session& session) {
  return session.obstacle_to_one_replay().value_or(ReplayObstacle{.reason = ""});
}

bool has_regions(const Program& program) {
  return program.root.kind != SegmentKind::kStraight || !program.root.children.empty();
}

/// By case, `arena` and lanes.
using Tried = std::tuple<SemanticCase, bool, int>;

std::string name_of_tried(const testing::TestParamInfo<Tried>& info) {
  const auto& [tried, arena, lanes] = info.param;
  return std::string(tried.name) + (arena ? "_arena" : "_eager") + (lanes > 1 ? "_lanes" : "");
}

void expect_whole_runs(Backend& backend, const Tried& what) {
  const auto& [tried, arena, lanes] = what;
  Recorded recorded(backend, case_graph(tried), {.arena = arena, .lanes = lanes, .graph = true});
  Session& session = recorded.session();
  for (std::uint64_t run = 0; run < 5; ++run) {
    SCOPED_TRACE(run);
    recorded.set_inputs(run);
    session.run();
    ASSERT_NO_FATAL_FAILURE(recorded.expect_run());
    EXPECT_EQ(obstacle_of(session).reason, "");
    EXPECT_EQ(session.host_reads(), 0);
    if (!has_regions(session.program())) continue;
    EXPECT_EQ(session.replays(), 1);
    EXPECT_EQ(session.recordings_made(), 1);
  }
}

class RegionReplay : public testing::TestWithParam<Tried> {};
TEST_P(RegionReplay, IsWhatTheOracleDoesRunAfterRun) {
  RegionCpu backend;
  expect_whole_runs(backend, GetParam());
}
INSTANTIATE_TEST_SUITE_P(All, RegionReplay,
                         testing::Combine(testing::ValuesIn(all_cases()), testing::Bool(), testing::Values(1)),
                         name_of_tried);

class GpuRegionReplay : public GpuTest, public testing::WithParamInterface<Tried> {};
TEST_P(GpuRegionReplay, IsWhatTheOracleDoesRunAfterRun) { expect_whole_runs(backend(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(Arena, GpuRegionReplay,
                         testing::Combine(testing::ValuesIn(all_cases()), testing::Values(true), testing::Values(1, 2)),
                         name_of_tried);
INSTANTIATE_TEST_SUITE_P(Eager, GpuRegionReplay,
                         testing::Combine(testing::ValuesIn(all_cases()), testing::Values(false), testing::Values(1)),
                         name_of_tried);

/// A branch in a loop: the host reads three predicates if it drives the control flow.
constexpr SemanticCase kBranchInALoop = {"ABranchInALoop", R"(
  %1: f32[4, 4] = silu(%x)
  loop 3 %i {
    %2: f32[4, 4] = row(%d, %i)
    if %hit {
      %3: f32[4, 4] = add(%2, %1)
      yield %4: f32[4, 4] = %3 else %2
    }
    %5: f32[4, 4] = add(%s, %4)
    next %s = %5
  }
  %6: f32[4, 4] = relu(%s)
  output y = %6)"};

struct Stop {};

/// The observations of a session that replays as a whole, and of one that does not.
void expect_observed(Backend& backend) {
  Recorded recorded(backend, case_graph(kBranchInALoop), {.arena = true, .graph = true});
  Session& session = recorded.session();
  recorded.set_inputs(0);
  for (int run = 0; run < 2; ++run) {
    std::vector<std::int64_t> iterations;
    session.run([&](std::int64_t iteration, double milliseconds) {
      iterations.push_back(iteration);
      EXPECT_GT(milliseconds, 0);
    });
    EXPECT_EQ(iterations, (std::vector<std::int64_t>{0, 1, 2}));
    ASSERT_NO_FATAL_FAILURE(recorded.expect_run());
  }
  EXPECT_THROW(session.run([](std::int64_t, double) { throw Stop(); }), Stop);
  const HostTensor left = session.state("s");
  session.set_state("s", left);  // in the state in which it was stopped
  Recorded fresh(backend, case_graph(kBranchInALoop), {.arena = true, .graph = true});
  fresh.set_inputs(0);
  fresh.session().set_state("s", left);
  session.run();
  fresh.session().run();
  expect_same(session.output("y"), fresh.session().output("y"));
  EXPECT_EQ(session.recordings_made(), 1);
}

TEST(RegionReplayWith, AnObserver) {
  RegionCpu backend;
  expect_observed(backend);
}

void expect_by_step(Backend& backend) {
  Recorded recorded(backend, case_graph(kBranchInALoop), {.arena = true, .graph = true});
  Session& session = recorded.session();
  recorded.set_inputs(3);
  const auto run = [&] {
    session.run();
    recorded.expect_run();
    return session.replays();
  };
  EXPECT_EQ(run(), 1);
  session.record_by_step(true);
  const std::int64_t by_step = run();
  EXPECT_GT(by_step, 4) << "of each iteration what is before the branch and what is in it or behind";
  EXPECT_EQ(session.host_reads(), 3);
  session.record_by_step(false);
  int launches = 0;
  session.observe_launches([&](int, const LaunchTime&) { ++launches; });
  EXPECT_EQ(run(), 0);
  EXPECT_GT(launches, 0);
  session.observe_launches({});
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(session.host_reads(), 0);
  session.record_by_step(true);
  const std::int64_t made = session.recordings_made();
  EXPECT_EQ(run(), by_step);
  EXPECT_EQ(session.recordings_made(), made) << "both kinds are kept";
}

TEST(RegionReplayWith, StepsRecordedOneByOne) {
  RegionCpu backend;
  expect_by_step(backend);
}

TEST(RegionReplayWith, ALaunchThatIsInTheWay) {
  RegionCpu backend;
  backend.refuse("a call of the host");
  Recorded recorded(backend, case_graph(kBranchInALoop), {.arena = true, .graph = true});
  Session& session = recorded.session();
  recorded.set_inputs(3);
  EXPECT_FALSE(session.obstacle_to_one_replay());
  for (int run = 0; run < 2; ++run) {
    session.run();
    ASSERT_NO_FATAL_FAILURE(recorded.expect_run());
    EXPECT_GT(session.replays(), 4);
    EXPECT_EQ(session.host_reads(), 3);
  }
  const Program& program = session.program();
  const Segment& loop = program.root.children.at(1);
  ASSERT_EQ(loop.kind, SegmentKind::kLoop);
  const Step& first = program.steps[static_cast<std::size_t>(loop.first)];
  EXPECT_EQ(obstacle_of(session).path, first.label);
  EXPECT_THAT(obstacle_of(session).reason,
              StartsWith(std::string(first.kernel->name()) + " submits a call of the host"));
}

TEST(RegionReplayWith, ADeviceThatRefusesForItsOwnReasons) {
  RegionCpu backend;
  backend.refuse("");
  Recorded recorded(backend, case_graph(kBranchInALoop), {.arena = true, .graph = true});
  recorded.set_inputs(2);
  recorded.session().run();
  ASSERT_NO_FATAL_FAILURE(recorded.expect_run());
  EXPECT_EQ(obstacle_of(recorded.session()).reason, "the driver said no");
  EXPECT_EQ(obstacle_of(recorded.session()).path, "");
}

TEST(RegionReplayWith, AnUnrecordedProgram) {
  RegionCpu backend;
  Recorded recorded(backend, case_graph(kBranchInALoop), {.arena = true});
  recorded.set_inputs(2);
  recorded.session().run();
  EXPECT_EQ(recorded.session().replays(), 0);
  EXPECT_EQ(recorded.session().host_reads(), 3);
}

using GpuRegionReplayWith = GpuTest;
TEST_F(GpuRegionReplayWith, AnObserver) { expect_observed(backend()); }
TEST_F(GpuRegionReplayWith, StepsRecordedOneByOne) { expect_by_step(backend()); }

TEST_F(GpuRegionReplayWith, ConstantMemory) {
  Recorded recorded(backend(), case_graph(kChains), {.arena = true, .lanes = 2, .graph = true});
  EXPECT_EQ(recorded.session().program().lanes, 2);
  recorded.set_inputs(3);
  recorded.session().run();
  const MemoryUse first = backend().memory_use();
  for (int i = 0; i < 20; ++i) {
    recorded.session().run();
    recorded.session().run([](std::int64_t, double) {});
  }
  EXPECT_EQ(backend().memory_use().allocations, first.allocations);
  EXPECT_EQ(backend().memory_use().total, first.total);
}

}  // namespace
}  // namespace headroom
