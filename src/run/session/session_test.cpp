#include "run/session/session.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "backends/cuda/gpu_test.hpp"
#include "base/tensors/random.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "plan/plan.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

class SessionTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);

  std::shared_ptr<const Program> make_program(const Graph& graph) const {
    return std::make_shared<Program>(plan(graph, backend_->properties().target, {.arena = GetParam()}));
  }
};

constexpr const char* kMixed = R"(graph mixed {
  input %x: f32[2, 5, 12]
  input %y: f32[2, 3, 12]
  %2: f32[2, 5, 12] = silu(%x)
  %3: f32[2, 3, 12] = relu(%y)
  %4: f32[2, 8, 12] = concat(%3, %2) {axis = 1}
  %5: f32[2, 8, 3, 4] = reshape(%4) {shape = [2, 8, 3, 4]}
  %6: f32[2, 3, 8, 4] = transpose(%5) {perm = [0, 2, 1, 3]}
  %7: f32[2, 3, 8, 8] = matmul(%6, %6) {transpose_b = 1}
  %8: f32[2, 3, 8, 8] = softmax(%7)
  %9: f32[2, 3, 8, 4] = matmul(%8, %6) {transpose_b = 0}
  %10: f32[2, 8, 3, 4] = transpose(%9) {perm = [0, 2, 1, 3]}
  %11: f32[2, 8, 12] = reshape(%10) {shape = [2, 8, 12]}
  %12: f32[2, 5, 12] = slice(%11) {axis = 1, start = 3, size = 5}
  %13: f32[2, 5, 12] = add(%12, %2)
  output z = %13
  output w = %11
})";

TEST_P(SessionTest, ComputesWhatTheOracleDoes) {
  const Graph graph = parse_graph(kMixed);
  Session session(make_program(graph), *backend_);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    NamedTensors inputs;
    for (const ValueId input : graph.values_of(ValueKind::kInput)) {
      inputs[graph.value(input).name] = random_tensor(graph.type(input), 2 * seed + index_of(input));
      session.set_input(graph.value(input).name, inputs[graph.value(input).name]);
    }
    session.run();
    const OracleResult oracle = interpret(graph, inputs, {});
    expect_near(session.output("z"), oracle.outputs.at("z"));
    expect_near(session.output("w"), oracle.outputs.at("w"));
  }
}

constexpr const char* kLoop = R"(graph loop {
  input %d: f32[4, 6]
  input %w: f32[6]
  state %s: f32[6]
  %3: f32[6] = silu(%w)
  loop 4 %i {
    %5: f32[6] = row(%d, %i)
    %6: f32[6] = mul(%5, %3)
    %7: f32[6] = add(%s, %6)
    next %s = %7
  }
  output s = %s
})";

TEST_P(SessionTest, LoopsCountAndCarryTheirState) {
  const Graph graph = parse_graph(kLoop);
  Session session(make_program(graph), *backend_);
  const NamedTensors inputs = {{"d", random_tensor(graph.type(graph.find(ValueKind::kInput, "d")), 1)},
                               {"w", random_tensor(graph.type(graph.find(ValueKind::kInput, "w")), 2)}};
  const NamedTensors states = {{"s", random_tensor(graph.type(graph.find(ValueKind::kState, "s")), 3)}};
  for (const auto& [name, tensor] : inputs) session.set_input(name, tensor);
  session.set_state("s", states.at("s"));
  std::vector<std::int64_t> iterations;
  session.run([&](std::int64_t iteration, double) { iterations.push_back(iteration); });
  EXPECT_EQ(iterations, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_GT(session.outside_loops_ms(), 0);
  const OracleResult once = interpret(graph, inputs, {}, states);
  expect_near(session.output("s"), once.outputs.at("s"));
  session.run();  // the state outlives the run
  EXPECT_EQ(session.outside_loops_ms(), 0) << "nobody asked for times";
  expect_near(session.state("s"), interpret(graph, inputs, {}, once.states).outputs.at("s"));
}

TEST_P(SessionTest, RefusesToRunWithoutAnInputAndWithAWrongOne) {
  const Graph graph = parse_graph(kLoop);
  Session session(make_program(graph), *backend_);
  EXPECT_THROW(session.run(), Error);
  EXPECT_THROW(session.set_input("nothing", HostTensor(DType::kF32, {6})), Error);
  EXPECT_THROW(session.set_input("w", HostTensor(DType::kF32, {7})), Error);
  EXPECT_THROW(session.set_input("w", HostTensor(DType::kF64, {6})), Error);
}

TEST_P(SessionTest, HoldsConstantMemoryAfterTheFirstRun) {
  const Graph graph = parse_graph(kMixed);
  Session session(make_program(graph), *backend_);
  for (const ValueId input : graph.values_of(ValueKind::kInput))
    session.set_input(graph.value(input).name, random_tensor(graph.type(input), 1));
  session.run();
  const MemoryUse first = backend_->memory_use();
  for (int i = 0; i < 100; ++i) session.run();
  EXPECT_EQ(backend_->memory_use().allocations, first.allocations);
  EXPECT_EQ(backend_->memory_use().total, first.total);
}

TEST_P(SessionTest, TellsEveryLaunchToAnObserver) {
  const Graph graph = parse_graph(kMixed);
  Session session(make_program(graph), *backend_);
  for (const ValueId input : graph.values_of(ValueKind::kInput))
    session.set_input(graph.value(input).name, random_tensor(graph.type(input), 0));
  std::vector<int> launched;
  session.observe_launches([&](int step, const LaunchTime& time) {
    launched.push_back(step);
    EXPECT_GE(time.milliseconds, 0);
  });
  session.run();
  std::vector<int> all(session.program().steps.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(launched, all);
  session.observe_launches({});
  session.run();
  EXPECT_EQ(launched, all);
}

TEST_P(SessionTest, DrawsAnInputAndRunsOnAStreamOfOthers) {
  const Graph graph = parse_graph(kLoop);
  const std::shared_ptr<Stream> stream = backend_->make_stream();
  Session session(make_program(graph), *backend_, stream);
  EXPECT_EQ(&session.stream(), stream.get());
  const NormalStream values{.seed = 4, .stream = 1, .mean = 0.5F, .deviation = 2};
  HostTensor drawn(DType::kF32, {4, 6});
  store_normal(drawn.bytes().data(), DType::kF32, 24, values);
  const HostTensor w = random_tensor({DType::kF32, {6}}, 2), s = random_tensor({DType::kF32, {6}}, 3);
  session.set_input_normal("d", values);
  session.set_input("w", w);
  session.set_state("s", s);
  session.submit();
  stream->synchronize();
  expect_near(session.output("s"), interpret(graph, {{"d", drawn}, {"w", w}}, {}, {{"s", s}}).outputs.at("s"));
}

/// `graph`: launches are replayed from a recording, whose values must still follow inputs, states and the counter.
class GraphSessionTest : public GpuTest, public testing::WithParamInterface<bool> {};

/// %3 lives across a loop that is recorded in the first run, while a recording of the second run writes %3.
constexpr const char* kAcrossALoop = R"(graph across {
  input %x: f32[256]
  state %s: f32[256]
  %2: f32[256] = silu(%x)
  %3: f32[256] = relu(%2)
  loop 4 %i {
    %5: f32[256] = silu(%s)
    %6: f32[256] = relu(%5)
    next %s = %6
  }
  %7: f32[256] = add(%3, %s)
  output y = %7
})";

/// One branch runs first after the other has been recorded; later runs replay each.
constexpr const char* kBranches = R"(graph branches {
  input %x: f32[256]
  input %hit: bool[]
  state %s: f32[256]
  %1: f32[256] = silu(%x)
  loop 3 %i {
    if %hit {
      %2: f32[256] = add(%s, %1)
      %3: f32[256] = relu(%2)
      yield %4: f32[256] = %3
    } else {
      %5: f32[256] = sub(%s, %1)
      yield %4 = %5
    }
    next %s = %4
  }
  output y = %s
})";

TEST_P(SessionTest, CountsThePredicatesThatTheHostReads) {
  const Graph graph = parse_graph(kBranches);
  Session session(make_program(graph), *backend_);
  EXPECT_EQ(most_host_reads(session.program().root), 3) << "one an iteration";
  session.set_input("x", random_tensor({DType::kF32, Shape{256}}, 1));
  session.set_input("hit", random_tensor({DType::kBool, Shape{}}, 1));
  session.set_state("s", random_tensor({DType::kF32, Shape{256}}, 2));
  for (int i = 0; i < 2; ++i) {
    session.run();
    EXPECT_EQ(session.host_reads(), 3);
  }
}

constexpr std::array kRecordedTexts = {kMixed, kLoop, kAcrossALoop, kBranches};

TEST(GraphSessionTexts, AreSoundAndCanBePlanned) {
  const DeviceTarget target = make_backend(DeviceKind::kCpu)->properties().target;
  for (const char* text : kRecordedTexts) {
    const Graph graph = parse_graph(text);
    EXPECT_NO_THROW(verify(graph)) << text;
    for (const bool arena : {false, true}) EXPECT_FALSE(plan(graph, target, {.arena = arena}).steps.empty()) << text;
  }
}

TEST_P(GraphSessionTest, ReplaysWhatItRecorded) {
  for (const char* text : kRecordedTexts) {
    const Graph graph = parse_graph(text);
    Session session(
        std::make_shared<Program>(plan(graph, backend().properties().target, {.arena = GetParam(), .graph = true})),
        backend());
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      NamedTensors inputs, states;
      for (const ValueId id : graph.values_of(ValueKind::kInput))
        session.set_input(graph.value(id).name,
                          inputs[graph.value(id).name] = random_tensor(graph.type(id), 9 * seed + index_of(id)));
      for (const ValueId id : graph.values_of(ValueKind::kState))
        session.set_state(graph.value(id).name,
                          states[graph.value(id).name] = random_tensor(graph.type(id), 9 * seed + index_of(id)));
      session.run();
      const OracleResult oracle = interpret(graph, inputs, {}, states);
      for (const Output& output : graph.outputs())
        expect_near(session.output(output.name), oracle.outputs.at(output.name));
      if (seed == 3) {  // a launch-by-launch run in between must not disturb what was recorded
        int launches = 0;
        session.observe_launches([&](int, const LaunchTime&) { ++launches; });
        session.run();
        session.observe_launches({});
        EXPECT_GE(launches, static_cast<int>(session.program().steps.size()));
      }
    }
  }
}

TEST_P(GraphSessionTest, HoldsConstantMemoryOnceRecorded) {
  const Graph graph = parse_graph(kMixed);
  Session session(
      std::make_shared<Program>(plan(graph, backend().properties().target, {.arena = GetParam(), .graph = true})),
      backend());
  for (const ValueId input : graph.values_of(ValueKind::kInput))
    session.set_input(graph.value(input).name, random_tensor(graph.type(input), 1));
  session.run();
  const MemoryUse first = backend().memory_use();
  for (int i = 0; i < 20; ++i) session.run();
  EXPECT_EQ(backend().memory_use().allocations, first.allocations);
  EXPECT_EQ(backend().memory_use().total, first.total);
}

INSTANTIATE_TEST_SUITE_P(Plans, GraphSessionTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Arena" : "Eager"; });
INSTANTIATE_TEST_SUITE_P(Plans, SessionTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Arena" : "Eager"; });

}  // namespace
}  // namespace headroom
