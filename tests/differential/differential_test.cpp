// Random graphs from fixed seeds, and every graph that once failed, under every setup. Also tests of the bounds
// themselves: a check with bounds that are too wide, or of graphs without effects, would find nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "backends/backend.hpp"
#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "differential/bound_rules.hpp"
#include "differential/bounds.hpp"
#include "differential/check.hpp"
#include "differential/random_data.hpp"
#include "differential/random_graph.hpp"
#include "differential/rebuild.hpp"
#include "differential/shrink.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "testing/imaginary_device.hpp"

namespace headroom::differential {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kGraphs = 2000;
constexpr std::uint64_t kShards = 20;
constexpr std::uint64_t kPeriod = 5;  // for single passes; regressions run all of them

class DifferentialGraphs : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, DifferentialGraphs, testing::Range<std::uint64_t>(0, kShards));

TEST_P(DifferentialGraphs, AgreeWithTheOracleUnderEverySetup) {
  Checker checker(DeviceKind::kCpu);
  for (std::uint64_t seed = GetParam(); seed < kGraphs; seed += kShards) {
    const Graph graph = random_graph(seed, DeviceKind::kCpu);
    const auto failure = checker.check(graph, {.seed = seed, .period = kPeriod});
    ASSERT_FALSE(failure.has_value()) << "seed " << seed << ": " << failure->passes << " " << failure->plan << ": "
                                      << failure->message
                                      << "\nrepeat and shrink it with: graph_fuzz --graphs 1 --seed " << seed;
  }
  const Tally& tally = checker.tally();
  // Without AVX-512, oneDNN has no matmuls in bf16.
  if (make_backend(DeviceKind::kCpu)->properties().target.cpu_isa >= CpuIsa::kAvx512) {
    EXPECT_EQ(tally.without_kernel, 0) << tally.last_without_kernel;
  }
  EXPECT_GT(tally.programs, 500);
  EXPECT_GT(tally.sharp, tally.elements * 3 / 4) << "bounds are so wide that little is checked";
}

/// Kernels of a CPU with limits that neither real device has: passes and plans ask for them.
TEST(DifferentialGraphs, AgreeWithTheOracleOnAnImaginaryDevice) {
  constexpr std::uint64_t kImaginaryGraphs = 100;
  Checker checker(kImaginary);
  for (std::uint64_t seed = 0; seed < kImaginaryGraphs; ++seed) {
    const auto failure = checker.check(random_graph(seed, DeviceKind::kCpu), {.seed = seed, .period = kPeriod});
    ASSERT_FALSE(failure.has_value()) << "seed " << seed << ": " << failure->passes << " " << failure->plan << ": "
                                      << failure->message
                                      << "\nrepeat and shrink it with: graph_fuzz --graphs 1 --seed " << seed
                                      << " --device imaginary";
  }
  EXPECT_GT(checker.tally().programs, 500);
}

TEST(DifferentialBodies, AgreeWithTheOracle) {
  constexpr std::uint64_t kBodyGraphs = 60;
  Checker checker(DeviceKind::kCpu);
  for (std::uint64_t seed = 0; seed < kBodyGraphs; ++seed) {
    const Graph graph = random_bodies(seed, DeviceKind::kCpu);
    const auto failure =
        checker.check(graph, {.seed = seed, .only = Failure{.passes = "none", .plan = "eager", .message = {}}});
    ASSERT_FALSE(failure.has_value()) << "seed " << seed << ": " << failure->message
                                      << "\nrepeat and shrink it with: graph_fuzz --bodies --graphs 1 --seed " << seed;
  }
  EXPECT_EQ(checker.tally().programs, kBodyGraphs);
}

std::vector<std::filesystem::path> regressions() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir(kSourceDir) / "tests/differential/regressions"))
    if (entry.path().extension() == ".graph") paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

class DifferentialRegressions : public testing::TestWithParam<std::filesystem::path> {};
INSTANTIATE_TEST_SUITE_P(All, DifferentialRegressions, testing::ValuesIn(regressions()),
                         [](const auto& param) { return param.param.stem().string(); });

TEST_P(DifferentialRegressions, AgreeWithTheOracleUnderEverySetup) {
  const Graph graph = parse_graph(read_file(GetParam()));
  Checker checker(DeviceKind::kCpu);
  for (const std::uint64_t seed : {0, 1}) {
    const auto failure = checker.check(graph, {.seed = seed, .all_plans = true});
    ASSERT_FALSE(failure.has_value()) << failure->passes << " " << failure->plan << ": " << failure->message;
  }
}

TEST(DifferentialBounds, HaveARuleForEveryOp) {
  for (const OpSchema& schema : all_ops()) EXPECT_TRUE(has_bound(schema.op)) << schema.name;
}

double steepest_slope(Op op) {
  constexpr double kStep = 0x1p-10;
  OracleTensor x{{DType::kF64, Shape{20001}}, {}, {}};
  for (int i = -10000; i <= 10000; ++i) x.reals.push_back(i * kStep);
  const std::vector<double> y = interpret_node(op, Attributes(op, {}), {x})[0].reals;
  double steepest = 0;
  for (std::size_t i = 1; i < y.size(); ++i) steepest = std::max(steepest, std::fabs(y[i] - y[i - 1]) / kStep);
  return steepest;
}

TEST(DifferentialBounds, NoActivationIsSteeperThanTheirRuleHasIt) {
  for (const Op op : {Op::kRelu, Op::kSilu, Op::kGeluTanh, Op::kQuickGelu, Op::kGeluErf})
    EXPECT_LE(steepest_slope(op), kSteepestUnary) << name_of(op);
}

TEST(DifferentialBounds, AreAroundWhatTheInterpreterGives) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = random_graph(seed, DeviceKind::kCpu);
    const NamedTensors inputs = random_inputs(graph, seed, 0), params = random_params(graph, seed),
                       states = random_states(graph, seed);
    const OracleResult oracle = interpret(graph, inputs, params, states);
    const BoundedResult bounded = interpret_bounded(graph, inputs, params, states, Covers::kReals);
    ASSERT_EQ(oracle.outputs.size(), bounded.outputs.size());
    for (const auto& [name, tensor] : oracle.outputs) {
      const OracleTensor& value = bounded.outputs.at(name).value;
      for (std::size_t i = 0; i < value.reals.size(); ++i) {
        const double expected = tensor.as<double>()[i];
        ASSERT_TRUE(value.reals[i] == expected || (std::isnan(expected) && std::isnan(value.reals[i]))) << seed << name;
      }
      for (std::size_t i = 0; i < value.integers.size(); ++i)
        ASSERT_EQ(value.integers[i], tensor.as<std::int64_t>()[i]) << seed << name;
    }
  }
}

TEST(DifferentialBounds, FollowFromDtypesAndStepsAlone) {
  const Graph graph = parse_graph(R"(graph g {
      input %x: f32[64]
      %1: f32[64] = silu(%x)
      %2: bf16[64] = cast(%x) {dtype = bf16}
      %3: bf16[64] = silu(%2)
      %4: i8[64], %5: f32[] = quantize(%x) {dtype = i8}
      %6: i8[64], %7: f32[] = quantize(%1) {dtype = i8}
      output f32 = %1
      output bf16 = %3
      output stored = %2
      output exact = %4
      output steps = %6
    })");
  const auto largest = [&](const char* output, Covers covers) {
    const BoundedResult result = interpret_bounded(graph, random_inputs(graph, 3, 0), {}, {}, covers);
    return std::ranges::max(result.outputs.at(output).error);
  };
  EXPECT_LT(largest("f32", Covers::kReals), 1e-13);
  EXPECT_GT(largest("f32", Covers::kKernels), 1e-8);
  EXPECT_LT(largest("f32", Covers::kKernels), 1e-5);
  EXPECT_GT(largest("bf16", Covers::kKernels), 1e-3);
  EXPECT_LT(largest("bf16", Covers::kKernels), 3e-2);
  EXPECT_EQ(largest("stored", Covers::kKernels), 0) << "an exact operand is rounded alike everywhere";
  EXPECT_GT(largest("stored", Covers::kUnrounded), 1e-3);
  EXPECT_EQ(largest("exact", Covers::kReals), 0);
  EXPECT_LE(largest("steps", Covers::kKernels), 1) << "one step at most";
  EXPECT_GE(largest("steps", Covers::kUnrounded), 0.5) << "half a step, even of what is exact";
}

/// bf16 and f16 do not contain each other. A small error becomes a whole step of the other dtype near a boundary, and
/// nothing elsewhere.
TEST(DifferentialBounds, OfCastsBetweenHalvesAreWholeStepsOrNothing) {
  const Graph graph = parse_graph(R"(graph g {
      input %x: f16[256]
      %1: f16[256] = silu(%x)
      %2: bf16[256] = cast(%1) {dtype = bf16}
      output y = %2
    })");
  const Bounded y = interpret_bounded(graph, random_inputs(graph, 3, 0), {}, {}, Covers::kKernels).outputs.at("y");
  std::size_t steps = 0, exact = 0;
  for (std::size_t i = 0; i < y.error.size(); ++i) {
    exact += y.error[i] == 0 ? 1 : 0;
    steps += y.error[i] >= 0x1p-8 * std::fabs(y.value.reals[i]) ? 1 : 0;  // bf16 has 8 significant bits
  }
  EXPECT_GT(exact, 0U);
  EXPECT_GT(steps, 0U);
  EXPECT_EQ(exact + steps, y.error.size());
}

TEST(DifferentialBounds, KnowTheGeluOfAMatmulOnAGpu) {
  const Graph graph = parse_graph(R"(graph g {
      input %x: f32[64, 1]
      param %w: f32[1, 1]
      %1: f32[64, 1] = linear(%x, %w) {epilogue = gelu_tanh(sum), tf32 = 0}
      output y = %1
})");
  const auto largest = [&](Covers covers) {
    const BoundedResult result =
        interpret_bounded(graph, random_inputs(graph, 3, 0), random_params(graph, 3), {}, covers);
    return std::ranges::max(result.outputs.at("y").error);
  };
  EXPECT_GT(largest(Covers::kCudaKernels), 2 * largest(Covers::kKernels));
  EXPECT_LT(largest(Covers::kCudaKernels), 1e-4) << "of f32 all the same";
}

TEST(DifferentialBounds, KnowThatAMatmulOnAGpuMayBeRoundedBeforeItsBias) {
  const auto error = [](Covers covers, DType dtype) {
    const OracleTensor x{{dtype, {1, 1}}, {1.0}, {}}, w{{dtype, {1, 1}}, {-0.96875}, {}}, bias{{dtype, {1}}, {1.0}, {}};
    const std::vector<Bounded> operands = {{x, {0}}, {w, {0}}, {bias, {0}}};
    const Attributes gelu(Op::kLinear, {{attr::kEpilogue, Epilogue(Activation::kGeluTanh)}});
    return bound_node(Op::kLinear, gelu, {&operands[0], &operands[1], &operands[2]}, covers)[0].error[0];
  };
  constexpr double kHalfStep = 0x1p-9;  // of bf16 from 1/2 to 1
  EXPECT_LT(error(Covers::kKernels, DType::kBF16), kHalfStep / 8) << "of the result, which is 0.016";
  EXPECT_GT(error(Covers::kCudaKernels, DType::kBF16), kHalfStep / 2) << "the slope at 0 is a half";
  EXPECT_LT(error(Covers::kCudaKernels, DType::kF32), 1e-6);
}

TEST(DifferentialBounds, KnowThatAResidualMayBeRoundedBeforeTheBias) {
  const auto error = [](Covers covers, DType dtype) {
    const auto one = [&](const Shape& shape, double value) { return Bounded{{{dtype, shape}, {value}, {}}, {0}}; };
    const Bounded x = one({1, 1}, 1), w = one({1, 1}, 1), bias = one({1}, -2.96875), residual = one({1, 1}, 2);
    const Attributes sum(Op::kLinear, {{attr::kEpilogue, Epilogue().then(Op::kAdd)}});
    return bound_node(Op::kLinear, sum, {&x, &w, &bias, &residual}, covers)[0].error[0];
  };
  constexpr double kHalfStep = 0x1p-7;  // of bf16 from 2 to 4
  EXPECT_GT(error(Covers::kCudaKernels, DType::kBF16), error(Covers::kKernels, DType::kBF16) + kHalfStep) << "of 3";
  EXPECT_LT(error(Covers::kCudaKernels, DType::kF32), 1e-5);
}

TEST(DifferentialShrinking, LeavesOutWhatIsNotRead) {
  const Graph graph = parse_graph(R"(graph g {
      input %x: f32[4, 6]
      input %hit: bool[]
      state %s: f32[4, 6]
      %1: f32[4, 6] = silu(%x)
      loop 3 %i {
        %2: f32[4, 6] = add(%s, %1)
        next %s = %2
        yield %3: f32[4, 6] = %2
      }
      if %hit {
        %4: f32[4, 6] = relu(%3)
        yield %5: f32[4, 6] = %4 else %x
      }
      output y = %5
      output z = %1
    })");
  const auto text_of = [](const std::optional<Graph>& edited) {
    return edited ? canonical_text(*edited) : std::string("unsound");
  };
  EXPECT_EQ(text_of(rebuild(graph, {})), canonical_text(graph));
  EXPECT_EQ(text_of(rebuild(graph, {.dropped_outputs = {0}, .dropped_updates = {0}})),
            canonical_text(parse_graph(R"(graph g {
      input %x: f32[4, 6]
      %1: f32[4, 6] = silu(%x)
      output z = %1
    })")));
  const ValueId result = graph.regions()[1].results[0].value;
  EXPECT_EQ(text_of(rebuild(graph, {.dropped_outputs = {1}, .dropped_updates = {0}, .cut = {result}, .unwrapped = 2})),
            canonical_text(parse_graph(fmt::format(R"(graph g {{
      input %cut{}: f32[4, 6]
      %1: f32[4, 6] = relu(%cut{})
      output y = %1
    }})",
                                                   index_of(result), index_of(result)))));
  EXPECT_EQ(text_of(rebuild(graph, {.dropped_outputs = {0}, .dropped_updates = {0}, .extent = 6, .smaller = 2})),
            canonical_text(parse_graph(R"(graph g {
      input %x: f32[4, 2]
      %1: f32[4, 2] = silu(%x)
      output z = %1
    })")));
}

TEST(DifferentialShrinking, KeepsLayoutsUnlessTheyAreDropped) {
  const Graph graph = parse_graph(R"(graph g {
      input %x: f32[1, 2, 4, 4]
      %1: f32[1, 2, 4, 4] channels_last = reshape(%x) {shape = [1, 2, 4, 4]}
      loop 2 %i {
        %2: f32[1, 2, 4, 4] channels_last = silu(%1)
        yield %3: f32[1, 2, 4, 4] channels_last = %2
      }
      %4: f32[32] = reshape(%3) {shape = [32]}
      output y = %4
    })");
  EXPECT_EQ(canonical_text(rebuild(graph, {}).value()), canonical_text(graph));
  const ValueId image = graph.nodes()[0].results[0], curved = graph.nodes()[1].results[0];
  EXPECT_THAT(canonical_text(rebuild(graph, {.untagged = {image}}).value()), Not(HasSubstr("channels_last")));
  EXPECT_THAT(canonical_text(rebuild(graph, {.cut = {curved}}).value()),
              AllOf(HasSubstr("input %cut"), HasSubstr("yield %1: f32[1, 2, 4, 4] channels_last")));
}

}  // namespace
}  // namespace headroom::differential
