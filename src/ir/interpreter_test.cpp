#include "ir/interpreter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/test_util.hpp"
#include "ir/text/text.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_tools::host;
using testing_tools::kF32;

std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.at(i));
  return values;
}

TEST(Interpreter, RunsAStraightLine) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{1, 2}});
  const ValueId w = b.param("w", {kF32, Shape{2, 2}});
  graph.add_output("y", b.relu(b.linear(x, w)));
  graph.add_output("x again", x);
  const OracleResult result =
      interpret(graph, {{"x", host(kF32, {1, 2}, {1, 2})}}, {{"w", host(kF32, {2, 2}, {1, 1, -1, 0})}});
  EXPECT_THAT(values_of(result.outputs.at("y")), ElementsAre(3, 0));
  EXPECT_THAT(values_of(result.outputs.at("x again")), ElementsAre(1, 2));
  EXPECT_EQ(result.outputs.at("y").dtype(), DType::kF64);
  EXPECT_TRUE(result.states.empty());
}

TEST(Interpreter, CountersCountFromZeroAndRowsFollow) {
  // The shape of a denoise loop: latents += dt[step] for each step.
  Graph graph;
  Builder b(graph);
  const ValueId steps = graph.add_input("dt", {kF32, Shape{3, 1}});
  const ValueId latents = graph.add_state("latents", {kF32, Shape{1}});
  {
    const auto loop = b.loop(3, "step");
    const ValueId scaled = b.mul(latents, b.row(steps, loop.counter()));
    graph.set_next(latents, b.add_scalar(scaled, 1.0), b.region());
  }
  graph.add_output("sample", latents);
  const OracleResult result =
      interpret(graph, {{"dt", host(kF32, {3, 1}, {2, 3, 5})}}, {}, {{"latents", host(kF32, {1}, {1})}});
  EXPECT_THAT(values_of(result.outputs.at("sample")), ElementsAre(((1 * 2 + 1) * 3 + 1) * 5 + 1));
  EXPECT_THAT(values_of(result.states.at("latents")), ElementsAre(51));
}

TEST(Interpreter, NestedLoopsRestartTheirCounters) {
  Graph graph;
  Builder b(graph);
  const ValueId total = graph.add_state("total", {DType::kI32, Shape{}});
  const ValueId rounds = graph.add_state("rounds", {DType::kI32, Shape{}});
  {
    const auto outer = b.loop(3, "i");
    {
      const auto inner = b.loop(4, "j");
      const ValueId index = b.add(b.mul_scalar(outer.counter(), 10), inner.counter());
      graph.set_next(total, b.add(total, index), b.region());
    }
    graph.set_next(rounds, b.add_scalar(rounds, 1), b.region());
  }
  graph.add_output("total", total);
  const NamedTensors states = {{"total", host(DType::kI32, {}, {0})}, {"rounds", host(DType::kI32, {}, {0})}};
  const OracleResult result = interpret(graph, {}, {}, states);
  EXPECT_THAT(values_of(result.outputs.at("total")), ElementsAre(4 * (0 + 10 + 20) + 3 * (0 + 1 + 2 + 3)));
  EXPECT_THAT(values_of(result.states.at("rounds")), ElementsAre(3));
  EXPECT_EQ(result.states.at("total").dtype(), DType::kI64);
}

TEST(Interpreter, StatesChangeAtTheEndOfAnIterationAndAllAtOnce) {
  Graph graph;
  Builder b(graph);
  const ValueId left = graph.add_state("left", {kF32, Shape{1}});
  const ValueId right = graph.add_state("right", {kF32, Shape{1}});
  const ValueId before = b.mul_scalar(left, 1.0);
  {
    const auto loop = b.loop(3, "i");
    b.relu(left);
    graph.set_next(left, right, b.region());
    graph.set_next(right, left, b.region());
  }
  const ValueId after = b.mul_scalar(b.read(left), 1.0);
  graph.add_output("before", before);
  graph.add_output("after", after);
  const NamedTensors states = {{"left", host(kF32, {1}, {1})}, {"right", host(kF32, {1}, {2})}};
  const OracleResult result = interpret(graph, {}, {}, states);
  EXPECT_THAT(values_of(result.outputs.at("before")), ElementsAre(1));
  EXPECT_THAT(values_of(result.outputs.at("after")), ElementsAre(2)) << "three swaps";
  EXPECT_THAT(values_of(result.states.at("left")), ElementsAre(2));
  EXPECT_THAT(values_of(result.states.at("right")), ElementsAre(1));
}

TEST(Interpreter, TheTopRegionCommitsAfterItsNodesAndAnOutputReadsTheLastState) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{1}});
  const ValueId cache = graph.add_state("cache", {kF32, Shape{1}});
  graph.set_next(cache, x, kTopRegion);
  graph.add_output("old", b.mul_scalar(cache, 1.0));
  graph.add_output("new", cache);
  const OracleResult result = interpret(graph, {{"x", host(kF32, {1}, {7})}}, {}, {{"cache", host(kF32, {1}, {5})}});
  EXPECT_THAT(values_of(result.outputs.at("old")), ElementsAre(5));
  EXPECT_THAT(values_of(result.outputs.at("new")), ElementsAre(7));
}

TEST(Interpreter, ALoopYieldsItsLastValues) {
  const Graph graph = parse_graph(R"(graph g {
      state %s: i32[]
      loop 4 %i {
        %1: i32[] = mul_scalar(%i) {value = 10}
        %2: i32[] = add(%s, %1)
        next %s = %2
        yield %3: i32[] = %1
        yield %4: i32[] = %s
      }
      %5: i32[] = add(%s, %4)
      output last = %3
      output before = %4
      output both = %5
    })");
  const OracleResult result = interpret(graph, {}, {}, {{"s", host(DType::kI32, {}, {1})}});
  EXPECT_THAT(values_of(result.outputs.at("last")), ElementsAre(30));
  EXPECT_THAT(values_of(result.outputs.at("before")), ElementsAre(31)) << "as the last iteration found it";
  EXPECT_THAT(values_of(result.outputs.at("both")), ElementsAre(61 + 31));
}

TEST(Interpreter, AnIfRunsOneBranchAndYieldsItsValues) {
  const Graph graph = parse_graph(R"(graph g {
      input %hit: bool[]
      input %x: f32[1]
      state %s: f32[1]
      state %t: f32[1]
      if %hit {
        %1: f32[1] = mul_scalar(%x) {value = 2}
        next %s = %1
        next %t = %s
        yield %2: f32[1] = %1
      } else {
        %3: f32[1] = mul_scalar(%x) {value = 3}
        next %s = %3
        yield %2 = %3
      }
      %4: f32[1] = add(%s, %t)
      output y = %2
      output sum = %4
    })");
  const auto run = [&](double hit) {
    return interpret(graph, {{"hit", host(DType::kBool, {}, {hit})}, {"x", host(kF32, {1}, {5})}}, {},
                     {{"s", host(kF32, {1}, {7})}, {"t", host(kF32, {1}, {9})}});
  };
  const OracleResult taken = run(1);
  EXPECT_THAT(values_of(taken.outputs.at("y")), ElementsAre(10));
  EXPECT_THAT(values_of(taken.outputs.at("sum")), ElementsAre(10 + 7));
  EXPECT_THAT(values_of(taken.states.at("t")), ElementsAre(7));
  const OracleResult missed = run(0);
  EXPECT_THAT(values_of(missed.outputs.at("y")), ElementsAre(15));
  EXPECT_THAT(values_of(missed.outputs.at("sum")), ElementsAre(15 + 9));
  EXPECT_THAT(values_of(missed.states.at("t")), ElementsAre(9));
}

TEST(Interpreter, AnIfWithoutElseYieldsWhatItSaysInstead) {
  const Graph graph = parse_graph(R"(graph g {
      input %hit: bool[]
      input %x: f32[1]
      %1: f32[1] = mul_scalar(%x) {value = 2}
      if %hit {
        %2: f32[1] = mul_scalar(%x) {value = 3}
        yield %3: f32[1] = %2 else %1
      }
      output y = %3
    })");
  const auto run = [&](double hit) {
    const OracleResult result =
        interpret(graph, {{"hit", host(DType::kBool, {}, {hit})}, {"x", host(kF32, {1}, {5})}}, {});
    return values_of(result.outputs.at("y"));
  };
  EXPECT_THAT(run(1), ElementsAre(15));
  EXPECT_THAT(run(0), ElementsAre(10));
}

TEST(Interpreter, ALoopWithoutNodesStillCommits) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{1}});
  const ValueId state = graph.add_state("s", {kF32, Shape{1}});
  const RegionId loop = graph.add_loop(kTopRegion, 2, "i");
  graph.set_next(state, x, loop);
  graph.add_output("y", state);
  const OracleResult result = interpret(graph, {{"x", host(kF32, {1}, {7})}}, {}, {{"s", host(kF32, {1}, {5})}});
  EXPECT_THAT(values_of(result.outputs.at("y")), ElementsAre(7));
}

TEST(Interpreter, TakesTensorsInTheDeclaredDTypeOrWider) {
  Graph graph;
  Builder b(graph);
  graph.add_output("y", b.mul_scalar(graph.add_input("x", {DType::kBF16, Shape{1}}), 1.0));
  const double third = 1.0 / 3.0;
  const auto run = [&](DType dtype) {
    return interpret(graph, {{"x", host(dtype, {1}, {third})}}, {}).outputs.at("y").at(0);
  };
  EXPECT_EQ(run(DType::kF64), third) << "given wider, held wider";
  EXPECT_EQ(run(kF32), double{1.0F / 3.0F});
  EXPECT_EQ(run(DType::kBF16), 0.333984375);
  EXPECT_THROW((void)run(DType::kF16), Error) << "no wider than bf16";
  EXPECT_THROW((void)run(DType::kI64), Error);
}

TEST(Interpreter, IntegersKeepAll64Bits) {
  Graph graph;
  Builder b(graph);
  graph.add_output("y", b.add_scalar(graph.add_input("x", {DType::kI64, Shape{1}}), 1));
  HostTensor x(DType::kI64, Shape{1});
  x.as<std::int64_t>()[0] = (std::int64_t{1} << 60) + 1;
  EXPECT_EQ(interpret(graph, {{"x", x}}, {}).outputs.at("y").as<std::int64_t>()[0], (std::int64_t{1} << 60) + 2);
}

TEST(Interpreter, NamesWhatIsMissingOrMisshapen) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  const ValueId w = b.param("w", {kF32, Shape{2}});
  const ValueId s = graph.add_state("s", {kF32, Shape{2}});
  graph.add_output("y", b.add(b.add(x, w), s));
  const NamedTensors xs = {{"x", host(kF32, {2}, {1, 2})}};
  const NamedTensors ws = {{"w", host(kF32, {2}, {1, 2})}, {"unused", HostTensor(kF32, Shape{1})}};
  const NamedTensors ss = {{"s", host(kF32, {2}, {1, 2})}};
  const auto message = [&](const NamedTensors& inputs, const NamedTensors& params, const NamedTensors& states) {
    try {
      (void)interpret(graph, inputs, params, states);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(message(xs, ws, ss), "nothing thrown");
  EXPECT_THAT(message({}, ws, ss), HasSubstr("the input x (f32[2]) was not given"));
  EXPECT_THAT(message(xs, {}, ss), HasSubstr("the param w"));
  EXPECT_THAT(message(xs, ws, {}), HasSubstr("the state s"));
  EXPECT_THAT(message({{"x", HostTensor(kF32, Shape{3})}}, ws, ss),
              HasSubstr("must be f32[2], but was given as f32[3]"));
}

TEST(Interpreter, ARuntimeErrorNamesTheModule) {
  Graph graph;
  Builder b(graph);
  b.set_path("sampler");
  const ValueId table = graph.add_input("table", {kF32, Shape{2}});
  const ValueId index = graph.add_input("index", {DType::kI32, Shape{}});
  graph.add_output("y", b.row(table, index));
  try {
    (void)interpret(graph, {{"table", host(kF32, {2}, {1, 2})}, {"index", host(DType::kI32, {}, {2})}}, {});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("row at sampler"));
  }
}

TEST(Interpreter, RefusesABrokenGraph) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{1}});
  graph.add_output("y", b.relu(x));
  graph.set_nodes({});
  EXPECT_THROW((void)interpret(graph, {{"x", host(kF32, {1}, {1})}}, {}), std::logic_error);
}

}  // namespace
}  // namespace headroom
