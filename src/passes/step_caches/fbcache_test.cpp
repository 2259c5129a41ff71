#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "passes/step_caches/step_cache.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A sequence of two blocks, each of which adds the result of a matmul to the stream.
constexpr const char* kTwoBlocks = R"(graph g {
      input %times: f32[4, 1]
      param %wa: f32[2, 2]
      param %wb: f32[2, 2]
      state %x: f32[1, 3, 2]
      block a
      block b
      loop 4 %step {
        %1: f32[1] = row(%times, %step) @ time
        %2: f32[1, 3, 2] = linear(%x, %wa) @ a
        %3: f32[1, 3, 2] = add(%x, %2) @ a
        %4: f32[1, 3, 2] = linear(%3, %wb) @ b
        %5: f32[1, 3, 2] = add(%3, %4) @ b
        %6: f32[1, 3, 2] = mul(%5, %1) @ head
        next %x = %6
      }
      output x = %x
    })";

TEST(FirstBlockCache, SkipsTheBlocksBehindTheFirst) {
  expect_rewrite("fbcache", R"(graph g {
      input %times: f32[4, 1]
      param %wa: f32[2, 2]
      param %wb: f32[2, 2]
      state %x: f32[1, 3, 2]
    + state %fbcache.anchor: f32[1, 3, 2]
    + state %fbcache.rest: f32[1, 3, 2]
    + state %fbcache.computed_steps: f32[4]
    + state %fbcache.cache_distances: f32[4]
      block a
      block b
      loop 4 %step {
        %1: f32[1] = row(%times, %step) @ time
        %2: f32[1, 3, 2] = linear(%x, %wa) @ a
        %3: f32[1, 3, 2] = add(%x, %2) @ a
    +   %7: f32[1, 3, 2] = sub(%3, %x) @ fbcache
    +   %8: f32[1, 3, 2] = abs(%fbcache.anchor) @ fbcache
    +   %9: f32[1, 3] = mean(%8) {axes = [2]} @ fbcache
    +   %10: f32[3] = reshape(%9) {shape = [3]} @ fbcache
    +   %11: f32[] = mean(%10) {axes = [0]} @ fbcache
    +   %12: f32[1, 3, 2] = sub(%7, %fbcache.anchor) @ fbcache
    +   %13: f32[1, 3, 2] = abs(%12) @ fbcache
    +   %14: f32[1, 3] = mean(%13) {axes = [2]} @ fbcache
    +   %15: f32[3] = reshape(%14) {shape = [3]} @ fbcache
    +   %16: f32[] = mean(%15) {axes = [0]} @ fbcache
    +   %17: f32[] = div(%16, %11) @ fbcache
    +   %18: f32[4] = constant() {values = [0, 1, 2, 3], shape = [4], dtype = f32} @ fbcache
    +   %19: f32[] = row(%18, %step) @ fbcache
    +   %20: f32[] = constant() {values = [0], shape = [], dtype = f32} @ fbcache
    +   %21: bool[] = equal(%19, %20) @ fbcache
    +   %22: f32[4] = constant() {values = [-1e+30, 1e-09, 1e-09, 1e-09], shape = [4], dtype = f32} @ fbcache
    +   %23: f32[] = row(%22, %step) @ fbcache
    +   %24: bool[] = less_equal(%17, %23) @ fbcache
    +   %25: bool[4] = equal(%18, %19) @ fbcache
    +   %26: f32[] = constant() {values = [1], shape = [], dtype = f32} @ fbcache
    +   %27: f32[] = constant() {values = [0], shape = [], dtype = f32} @ fbcache
    +   %28: f32[] = select(%24, %27, %26) @ fbcache
    +   %29: f32[4] = select(%25, %28, %fbcache.computed_steps) @ fbcache
    +   %30: f32[] = constant() {values = [0], shape = [], dtype = f32} @ fbcache
    +   %31: f32[] = select(%21, %30, %17) @ fbcache
    +   %32: f32[4] = select(%25, %31, %fbcache.cache_distances) @ fbcache
    +   if %24 {
    +     %33: f32[1, 3, 2] = add(%3, %fbcache.rest) @ fbcache
    +     yield %34: f32[1, 3, 2] = %33
    +   } else {
        %4: f32[1, 3, 2] = linear(%3, %wb) @ b
        %5: f32[1, 3, 2] = add(%3, %4) @ b
    +     %35: f32[1, 3, 2] = sub(%5, %3) @ fbcache
    +     next %fbcache.anchor = %7
    +     next %fbcache.rest = %35
    +     yield %34 = %5
    +   }
    -   %6: f32[1, 3, 2] = mul(%5, %1) @ head
    +   %6: f32[1, 3, 2] = mul(%34, %1) @ head
        next %x = %6
    +   next %fbcache.computed_steps = %29
    +   next %fbcache.cache_distances = %32
      }
      output x = %x
    + output computed_steps = %fbcache.computed_steps
    + output cache_distances = %fbcache.cache_distances
    })",
                 1, 1e-12, "1e-9");
}

/// Text and image pass separately through one block, and together through the next, of which only the image is read.
constexpr const char* kTwoStreams = R"(graph g {
      input %text: f32[1, 2, 2]
      param %wa: f32[2, 2]
      param %wb: f32[2, 2]
      state %x: f32[1, 2, 2]
      block a
      block b
      loop 3 %step {
        %1: f32[1, 2, 2] = linear(%text, %wa) @ a
        %2: f32[1, 2, 2] = add(%text, %1) @ a
        %3: f32[1, 2, 2] = linear(%x, %wa) @ a
        %4: f32[1, 2, 2] = mul(%3, %1) @ a
        %5: f32[1, 2, 2] = add(%x, %4) @ a
        %6: f32[1, 4, 2] = concat(%2, %5) {axis = 1}
        %7: f32[1, 4, 2] = linear(%6, %wb) @ b
        %8: f32[1, 4, 2] = add(%7, %6) @ b
        %9: f32[1, 2, 2] = slice(%8) {axis = 1, start = 2, size = 2}
        %10: f32[1, 2, 2] = silu(%9) @ head
        next %x = %10
      }
      output x = %x
    })";

TEST(FirstBlockCache, FollowsTheStreamThatIsReadThroughOneThatIsJoined) {
  const Graph original = parse_graph(kTwoStreams);
  Graph graph = original;
  EXPECT_EQ(run_pass("fbcache", graph, kCapableCpu, "1e-9").rewrites, 1);
  EXPECT_LE(distance(interpret_on_random(graph, 5), interpret_on_random(original, 5)), 1e-12);
  const auto found = std::get<BlockLoop>(find_block_loop(original));
  EXPECT_EQ(found.enters, original.find(ValueKind::kState, "x"));
  EXPECT_EQ(found.passes, original.nodes()[4].results[0]);
  EXPECT_EQ(found.leaves, original.nodes()[8].results[0]);
}

/// The loop of kTwoBlocks computed by hand, with step i a hit if `hits` says so.
struct Byhand {
  std::vector<double> x, rest, slope, anchor;
  std::vector<double> distances;
  std::vector<bool> computed;
};
Byhand run_by_hand(const NamedTensors& inputs, const NamedTensors& params, const NamedTensors& states, double threshold,
                   const StepCacheOptions& options) {
  const auto matmul = [](const std::vector<double>& x, const HostTensor& w) {
    std::vector<double> y(x.size());
    for (std::size_t row = 0; row < x.size() / 2; ++row)
      for (std::int64_t o = 0; o < 2; ++o)
        y[row * 2 + static_cast<std::size_t>(o)] = x[row * 2] * w.at(o * 2) + x[row * 2 + 1] * w.at(o * 2 + 1);
    return y;
  };
  const auto sum_of = [](const std::vector<double>& a, const std::vector<double>& b, double factor) {
    std::vector<double> y = a;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * b[i];
    return y;
  };
  const auto magnitude = [](const std::vector<double>& x) {
    double all = 0;
    for (const double value : x) all += std::fabs(value);
    return all;
  };
  Byhand run;
  for (std::int64_t i = 0; i < states.at("x").numel(); ++i) run.x.push_back(states.at("x").at(i));
  std::int64_t hits = 0;
  for (std::int64_t step = 0; step < 4; ++step) {
    const std::vector<double> residual = matmul(run.x, params.at("wa"));
    const std::vector<double> passed = sum_of(run.x, residual, 1);
    run.distances.push_back(step == 0 ? 0 : magnitude(sum_of(residual, run.anchor, -1)) / magnitude(run.anchor));
    const bool hit = step >= options.warmup && step < 4 - options.last && (options.run == 0 || hits < options.run) &&
                     run.distances.back() <= threshold;
    const double since = static_cast<double>(hits + 1);
    std::vector<double> out = passed;
    if (hit) {
      out = sum_of(sum_of(out, run.rest, 1), run.slope, options.forecasts ? since : 0);
    } else {
      const std::vector<double> rest = matmul(passed, params.at("wb"));
      out = sum_of(passed, rest, 1);
      run.slope.assign(rest.size(), 0);
      if (step > 0)
        for (std::size_t i = 0; i < rest.size(); ++i) run.slope[i] = (rest[i] - run.rest[i]) / since;
      run.rest = rest;
      run.anchor = residual;
    }
    hits = hit ? hits + 1 : 0;
    run.computed.push_back(!hit);
    for (double& value : out) value *= inputs.at("times").at(step);
    run.x = out;
  }
  return run;
}

/// The pass's loop, started with arbitrary states such as an earlier request leaves, equals the computation by hand.
void expect_by_hand(const std::string& argument, int least_hits, int most_hits) {
  SCOPED_TRACE(argument);
  Graph graph = parse_graph(kTwoBlocks);
  run_pass("fbcache", graph, kCapableCpu, argument);
  NamedTensors inputs = random_tensors(graph, ValueKind::kInput, 3);
  for (std::int64_t step = 0; step < 4; ++step) inputs.at("times").set(step, 1.0 - 0.03 * static_cast<double>(step));
  NamedTensors params = random_tensors(graph, ValueKind::kParam, 3);
  for (auto& [name, tensor] : params)
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, 0.05 * tensor.at(i));
  const NamedTensors states = random_tensors(graph, ValueKind::kState, 3);
  const StepCacheOptions options = parse_step_cache("fbcache", argument);
  const Byhand expected = run_by_hand(inputs, params, states, options.threshold, options);
  const auto hits = std::ranges::count(expected.computed, false);
  EXPECT_GE(hits, least_hits);
  EXPECT_LE(hits, most_hits);

  const OracleResult result = interpret(graph, inputs, params, states);
  for (std::size_t i = 0; i < expected.x.size(); ++i)
    EXPECT_NEAR(result.outputs.at("x").at(static_cast<std::int64_t>(i)), expected.x[i], 1e-9);
  for (std::int64_t step = 0; step < 4; ++step) {
    const auto s = static_cast<std::size_t>(step);
    EXPECT_EQ(result.outputs.at(std::string(kComputedSteps)).at(step), expected.computed[s] ? 1 : 0) << step;
    EXPECT_NEAR(result.outputs.at(std::string(kCacheDistances)).at(step), expected.distances[s], 1e-9) << step;
  }
}

TEST(FirstBlockCache, IsItsDefinition) {
  expect_by_hand("0.2", 2, 2);
  expect_by_hand("10", 3, 3);
  expect_by_hand("10:warmup=2", 2, 2);
  expect_by_hand("10:last=1", 2, 2);
  expect_by_hand("10:run=1", 2, 2);
  expect_by_hand("10:run=1:taylor=1", 2, 2);
  expect_by_hand("0.2:taylor=1", 2, 2);
  expect_by_hand("10:warmup=2:taylor=1", 2, 2);
}

TEST(FirstBlockCache, AScheduleDecides) {
  Graph graph = parse_graph(kTwoBlocks);
  run_pass("fbcache", graph, kCapableCpu, "1e-9:schedule=1001");
  const OracleResult result = interpret_on_random(graph, 3);
  const std::vector<double> expected = {1, 0, 0, 1};
  for (std::int64_t step = 0; step < 4; ++step)
    EXPECT_EQ(result.outputs.at(std::string(kComputedSteps)).at(step), expected[static_cast<std::size_t>(step)]);
  EXPECT_GT(result.outputs.at(std::string(kCacheDistances)).at(1), 0) << "it is measured all the same";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

void expect_declined(const std::string& text, const std::string& reason) {
  Graph graph = parse_graph(text);
  const std::string before = canonical_text(graph);
  const PassOutcome outcome = run_pass("fbcache", graph, kCapableCpu, "0.1");
  EXPECT_EQ(outcome.rewrites, 0);
  EXPECT_THAT(outcome.declined.value_or(""), HasSubstr(reason));
  EXPECT_EQ(canonical_text(graph), before);
}

TEST(FirstBlockCache, DeclinesOtherGraphs) {
  expect_declined(R"(graph g {
      input %x: f32[2]
      block a
      block b
      %1: f32[2] = relu(%x) @ a
      %2: f32[2] = silu(%1) @ b
      output y = %2
    })",
                  "there is no denoise loop here");
  expect_declined(with(kTwoBlocks, "loop 4", "loop 1"), "the loop runs once");
  expect_declined(with(kTwoBlocks, "      block b\n", ""), "no row of blocks");
  expect_declined(with(kTwoBlocks, "add(%3, %4) @ b", "mul(%3, %4) @ b"), "no residual stream");
  expect_declined(with(kTwoBlocks, "mul(%5, %1)", "mul(%5, %4)"), "more of them than one stream");
}

/// The ops in the loop that run in every step on a GPU, where each is a launch: rows of three tables, and two small
/// bodies. The reduction itself is fused into the last op of the first block.
TEST(FirstBlockCache, DecidesInAFewLaunches) {
  constexpr Target kGeneratingHopper{
      .device = DeviceKind::kCuda, .compute_capability = 90, .multiprocessors = 132, .has_compiler = true};
  const auto count_launches = [&](const std::string& argument) {
    Graph graph = parse_graph(kTwoBlocks);
    optimize(graph, SwitchSet::parse("fuse,hoist,fbcache=" + argument), kGeneratingHopper);
    int launches = 0;
    for (const Node& node : graph.nodes())
      if (graph.region(node.region).kind == RegionKind::kLoop && node.path == "fbcache" && node.op != Op::kReshape)
        ++launches;
    return launches;
  };
  EXPECT_EQ(count_launches("0.1"), 5);
  EXPECT_EQ(count_launches("0.1:run=2:taylor=1"), 5);
}

TEST(FirstBlockCache, RefusesAnArgumentThatSaysNothing) {
  Graph graph = parse_graph(kTwoBlocks);
  EXPECT_THROW(run_pass("fbcache", graph, kCapableCpu, "soon"), Error);
}

}  // namespace
}  // namespace headroom
