#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "base/clock.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "plan/test_util.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

/// Two tiled runs in a loop, with an op across samples in between; their outputs are the state of the next iteration.
constexpr const char* kTiled = R"(graph tiled {
  input %m: f32[8, 1, 96]
  state %s: f32[8, 64, 96]
  loop 3 %i {
    %3: f32[8, 64, 96] = norm_modulate(%s, %m, %m) {eps = 1e-06}
    %4: f32[8, 64, 96] = silu(%3)
    %5: f32[8, 128, 96] = concat(%4, %3) {axis = 1}
    %6: f32[8, 128, 3, 32] = reshape(%5) {shape = [8, 128, 3, 32]}
    %7: f32[8, 3, 128, 32] = transpose(%6) {perm = [0, 2, 1, 3]}
    %8: f32[8, 3, 128, 128] = matmul(%7, %7) {transpose_b = 1}
    %9: f32[8, 3, 128, 128] = softmax(%8)
    %10: f32[8, 3, 128, 32] = matmul(%9, %7) {transpose_b = 0}
    %11: f32[8, 128, 3, 32] = transpose(%10) {perm = [0, 2, 1, 3]}
    %12: f32[8, 128, 96] = reshape(%11) {shape = [8, 128, 96]}
    %13: f32[8, 64, 96] = slice(%12) {axis = 1, start = 64, size = 64}
    %14: f32[8, 64, 96] = gate_residual(%s, %m, %13)
    %15: f32[64, 8, 96] = transpose(%14) {perm = [1, 0, 2]}
    %16: f32[64, 8, 96] = softmax(%15)
    %17: f32[8, 64, 96] = transpose(%16) {perm = [1, 0, 2]}
    %18: f32[8, 64, 64] = matmul(%17, %14) {transpose_b = 1}
    %19: f32[8, 64, 64] = softmax(%18)
    %20: f32[8, 64, 96] = matmul(%19, %14) {transpose_b = 0}
    next %s = %20
  }
  output s = %s
})";

class TiledSessionTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, GetParam());

  std::shared_ptr<const Program> make_program(const Graph& graph) const {
    DeviceTarget target = backend_->properties().target;
    target.core_cache_bytes = std::size_t{2} << 20;
    return std::make_shared<Program>(plan(graph, target, {.arena = true, .tile = true}));
  }
};

TEST_P(TiledSessionTest, ComputesWhatTheOracleDoesRunAfterRun) {
  const Graph graph = parse_graph(kTiled);
  Session session(make_program(graph), *backend_);
  ASSERT_EQ(session.program().tiled.size(), 2U);
  const NamedTensors inputs = {{"m", random_tensor(graph.type(graph.find(ValueKind::kInput, "m")), 1)}};
  NamedTensors states = {{"s", random_tensor(graph.type(graph.find(ValueKind::kState, "s")), 2)}};
  session.set_input("m", inputs.at("m"));
  session.set_state("s", states.at("s"));
  for (int run = 0; run < 2; ++run) {
    session.run();
    const OracleResult oracle = interpret(graph, inputs, {}, states);
    EXPECT_LE(relative_l2(session.output("s"), oracle.outputs.at("s")), 1e-5);
    states = oracle.states;
  }
}

TEST_P(TiledSessionTest, TellsEveryLaunchToAnObserverAndHoldsConstantMemory) {
  const Graph graph = parse_graph(kTiled);
  Session session(make_program(graph), *backend_);
  session.set_input("m", random_tensor(graph.type(graph.find(ValueKind::kInput, "m")), 1));
  session.set_state("s", random_tensor(graph.type(graph.find(ValueKind::kState, "s")), 2));
  session.run();
  const MemoryUse first = backend_->memory_use();
  std::vector<int> launched;
  double tiled_ms = 0;
  const auto start = std::chrono::steady_clock::now();
  auto before = start;
  session.observe_launches([&](int step, const LaunchTime& time) {
    launched.push_back(step);
    EXPECT_GE(time.start, before) << "launches are reported in order, and none begins before the last is over";
    before = time.start + std::chrono::nanoseconds(static_cast<std::int64_t>(time.milliseconds * 1e6) - 1000);
    if (tiled_run_at(session.program(), step) != nullptr) {
      EXPECT_GT(time.milliseconds, 0);
      tiled_ms += time.milliseconds;
    }
  });
  session.run();
  EXPECT_LE(tiled_ms, milliseconds_since(start)) << "a step's share of the wall time, not the threads' sum";
  std::vector<int> all(session.program().steps.size());
  std::iota(all.begin(), all.end(), 0);
  ASSERT_EQ(launched.size(), 3 * all.size());
  for (std::size_t i = 0; i < launched.size(); ++i) EXPECT_EQ(launched[i], all[i % all.size()]);
  EXPECT_EQ(backend_->memory_use().allocations, first.allocations);
}

TEST_P(TiledSessionTest, SamplesThatMeetAndWhatIsPutOutEarly) {
  for (const char* text : {kMixedSamples, kEarlyOutput}) {
    const Graph graph = parse_graph(text);
    Session session(make_program(graph), *backend_);
    ASSERT_FALSE(session.program().tiled.empty());
    const HostTensor x = random_tensor(graph.type(graph.find(ValueKind::kInput, "x")), 3);
    session.set_input("x", x);
    session.run();
    const OracleResult oracle = interpret(graph, {{"x", x}}, {});
    for (const Output& output : graph.outputs())
      expect_near(session.output(output.name), oracle.outputs.at(output.name));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, TiledSessionTest, testing::Values(1, 2),
                         [](const auto& parameter) { return std::to_string(parameter.param); });

}  // namespace
}  // namespace headroom
