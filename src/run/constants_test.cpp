#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/backend.hpp"
#include "io/checkpoint.hpp"
#include "ir/builder.hpp"
#include "ir/interpreter.hpp"
#include "plan/plan.hpp"
#include "plan/weight_key.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

std::vector<double> ramp(std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(0.5 * static_cast<double>(i % 9) - 2);
  return values;
}

/// In a loop and before it, alone and scaled, small and large, and as an output.
Graph with_constants() {
  Graph graph("constants");
  Builder b(graph);
  const ValueId state = graph.add_state("x", {DType::kF32, {3, 40}});
  const ValueId one = b.constant({0.25}, {3, 40});
  {
    const auto loop = b.loop(2, "i");
    const ValueId row = b.mul_scalar(b.constant(ramp(40), {40}), 0.5);
    b.set_next(state, b.add(b.mul(state, one), row));
  }
  graph.add_output("row", b.constant({-2, 3, 700}, {3}, DType::kI32));
  return graph;
}

class ConstantsTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Plans, ConstantsTest, testing::Bool());

TEST_P(ConstantsTest, AreFoldedOnceAndRead) {
  const Graph graph = with_constants();
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto program =
      std::make_shared<const Program>(plan(graph, backend->properties().target, {.arena = GetParam()}));
  EXPECT_EQ(program->weights.size(), 3U);
  for (const Step& step : program->steps) EXPECT_NE(step.op, Op::kConstant);
  const Checkpoint checkpoint = Checkpoint::random(nlohmann::json::object(), {}, 0);
  WeightStore store(*backend, checkpoint);
  Session session(program, store, *backend);
  HostTensor x(DType::kF32, {3, 40});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>(i) * 0.125);
  session.set_state("x", x);
  session.run();
  const OracleResult expected = interpret(graph, {}, {}, {{"x", x}});
  const HostTensor state = session.state("x"), row = session.output("row");
  for (std::int64_t i = 0; i < x.numel(); ++i) EXPECT_NEAR(state.at(i), expected.states.at("x").at(i), 1e-5);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(row.at(i), expected.outputs.at("row").at(i));
}

TEST(ConstantsKey, NamesFewValuesAndHashesMany) {
  Graph graph("g");
  Builder b(graph);
  const ValueId few = b.constant({1, 2.5}, {2}), many = b.constant(ramp(4000), {4000});
  std::vector<double> other = ramp(4000);
  other.back() += 1;
  const ValueId another = b.constant(other, {4000});
  const std::vector<int> producers = find_producers(graph);
  EXPECT_NE(weight_key(graph, producers, few).find("[1,2.5]"), std::string::npos);
  EXPECT_LT(weight_key(graph, producers, many).size(), 120U);
  EXPECT_NE(weight_key(graph, producers, many), weight_key(graph, producers, another));
}

}  // namespace
}  // namespace headroom
