// The rule of each op against central differences in double precision, on the op's own cases (ir/test_cases) and on
// random convolutions and reductions.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autodiff/formula.hpp"
#include "autodiff/test_util.hpp"
#include "ir/expand.hpp"
#include "ir/op_definition.hpp"
#include "ir/test_cases/convolution_cases.hpp"
#include "ir/test_cases/op_cases.hpp"
#include "ir/test_cases/value_range.hpp"

namespace headroom {
namespace {

using namespace testing_tools;

constexpr double kMostError = 1e-6;
constexpr double kStep = 1e-5;

// A new op fails here until its row has a rule or a reason.
TEST(Rules, EveryOpHasOne) {
  for (const OpSchema& schema : all_ops()) {
    const OpDefinition& row = definition_of(schema.op);
    const int kinds =
        (row.derive != nullptr ? 1 : 0) + (has_formula(schema.op) ? 1 : 0) + (row.no_derivative.empty() ? 0 : 1);
    if (schema.fused)
      EXPECT_LE(kinds, 1) << schema.name << " has several rules";
    else
      EXPECT_EQ(kinds, 1) << schema.name << " needs a rule: OpDefinition::derive or no_derivative";
  }
}

TEST(Rules, ReasonsAreThoseOfRoundingIntegersAndRanks) {
  std::set<std::string_view> names;
  for (const OpSchema& schema : all_ops())
    if (!definition_of(schema.op).no_derivative.empty()) names.insert(schema.name);
  EXPECT_EQ(names,
            (std::set<std::string_view>{"less", "less_equal", "equal", "quantize", "scaled_linear", "constant",
                                        "random", "argmax", "quantize_values", "scaled_attention", "all_gather",
                                        "reduce_scatter", "all_reduce", "all_to_all", "shift", "unpack_blocks"}));
}

/// Whether differences show the derivative of the case: images in rows, and nothing rounded.
bool is_smooth(const OpSpec& spec) {
  for (const TensorType& input : spec.inputs)
    if (input.layout != Layout::kRowMajor) return false;
  return spec.op != Op::kFused || std::ranges::none_of(body_of(spec.attributes).nodes(), [](const Node& node) {
           return node.op == Op::kCast || node.op == Op::kQuantize;
         });
}

bool is_one_of(Op op, std::initializer_list<Op> ops) { return std::ranges::find(ops, op) != ops.end(); }

/// Operands from their ranges, away from where the op is not defined.
std::vector<HostTensor> operands_of_case(const OpSpec& spec) {
  std::vector<HostTensor> operands;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    OracleTensor drawn = random_input(spec, i, 7);
    const bool is_above_0 = is_one_of(spec.op, {Op::kLog, Op::kSqrt, Op::kRsqrt}) || (spec.op == Op::kPow && i == 0);
    const bool is_divisor = is_one_of(spec.op, {Op::kDiv, Op::kMod}) && i == 1;
    for (double& x : drawn.reals) {
      if (is_above_0) x = std::fabs(x) + 0.5;
      if (is_divisor) x += x < 0 ? -0.5 : 0.5;
    }
    HostTensor tensor(drawn.reals.empty() ? spec.inputs[i].dtype : DType::kF64, spec.inputs[i].shape);
    for (std::int64_t k = 0; k < tensor.numel(); ++k)
      tensor.set(k, drawn.reals.empty() ? static_cast<double>(drawn.integers[static_cast<std::size_t>(k)])
                                        : drawn.reals[static_cast<std::size_t>(k)]);
    operands.push_back(std::move(tensor));
  }
  return operands;
}

/// The largest error of the gradients of a case, along a random direction of each operand and along single elements.
/// Relative to the length of the gradient, or to its mean magnitude.
double error_of(const OpSpec& spec) {
  LossGraph forward, backward;
  std::vector<std::size_t> wrt;
  for (LossGraph* graph : {&forward, &backward}) {
    std::vector<ValueId> inputs, floats, results;
    for (const TensorType& input : spec.inputs) {
      inputs.push_back(graph->input(input));
      if (is_float(input.dtype)) floats.push_back(inputs.back());
      if (is_float(input.dtype) && graph == &forward) wrt.push_back(inputs.size() - 1);
    }
    const std::vector<ValueId> made =
        graph->builder().emit(spec.op, inputs, {spec.attributes.all().begin(), spec.attributes.all().end()});
    for (const ValueId result : made)
      if (is_float(graph->builder().dtype(result))) results.push_back(result);
    if (spec.attributes.has(attr::kLogsumexp) && results.size() > 1)  // -inf for a query without keys
      results[1] = graph->builder().exp(results[1]);
    const ValueId loss = graph->weighted_sum(results);
    graph->differentiate(loss, graph == &forward ? std::vector<ValueId>{} : floats);
  }

  const std::vector<HostTensor> operands = operands_of_case(spec);
  const NamedTensors gradients = backward.run(operands);
  double most = 0;
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    const std::vector<double> gradient = values_of(gradients.at("d" + std::to_string(k)));
    double length = 0;
    for (const double value : gradient) length += value * value;
    length = std::sqrt(length);
    const auto check = [&](const std::vector<double>& direction, double scale) {
      double losses[2];
      double expected = 0;
      for (const int side : {0, 1}) {
        std::vector<HostTensor> moved = operands;
        for (std::size_t i = 0; i < direction.size(); ++i)
          moved[wrt[k]].as<double>()[i] += (side == 0 ? -kStep : kStep) * direction[i];
        losses[side] = forward.run(moved).at("loss").at(0);
      }
      for (std::size_t i = 0; i < direction.size(); ++i) expected += gradient[i] * direction[i];
      const double error = std::fabs((losses[1] - losses[0]) / (2 * kStep) - expected);
      most = std::isnan(error) ? error : std::max(most, error / std::max(scale, 1e-3));
    };
    std::vector<float> draws(gradient.size());
    fill_normal(draws, 5, k);
    check({draws.begin(), draws.end()}, length);
    const double usual = length / std::sqrt(static_cast<double>(gradient.size()));
    for (const std::size_t at : {std::size_t{0}, gradient.size() / 2, gradient.size() - 1}) {
      std::vector<double> one(gradient.size(), 0);
      one[at] = 1;
      check(one, std::max(usual, std::fabs(gradient[at])));
    }
    if (std::isnan(most)) return most;
  }
  return most;
}

class RuleOfOp : public testing::TestWithParam<Op> {};

TEST_P(RuleOfOp, AgreesWithCentralDifferences) {
  constexpr double kMostFlops =
      5e5;  // some elements of larger cases are close to a kink; a shortcut has no smaller one
  std::size_t count = 0;
  for (const OpCase& one : small_cases(GetParam(), {})) {
    const OpSpec& spec = one.spec;
    const double flops = definition_of(spec.op).flops.count(spec.attributes, spec.inputs, spec.outputs);
    const bool is_small = flops <= kMostFlops || (GetParam() == Op::kConv2dShortcut && count == 0);
    if (!is_small || !is_smooth(spec)) continue;
    ++count;
    EXPECT_LE(error_of(spec), kMostError) << one.name;
  }
  EXPECT_GT(count, 0U);
}

std::vector<Op> ops_with_derivatives() {
  std::vector<Op> ops;
  for (const OpSchema& schema : all_ops())
    if (definition_of(schema.op).no_derivative.empty() && schema.op != Op::kCast) ops.push_back(schema.op);
  return ops;
}
INSTANTIATE_TEST_SUITE_P(Ops, RuleOfOp, testing::ValuesIn(ops_with_derivatives()),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

// Rules are made of ops that have rules, or say why they have none; so gradients have gradients.
TEST(Rules, GradientsHaveGradients) {
  for (const Op op : ops_with_derivatives()) {
    const std::vector<OpCase> cases = small_cases(op, {});
    const OpSpec& spec = std::ranges::find_if(cases, [](const OpCase& one) { return is_smooth(one.spec); })->spec;
    LossGraph graph;
    std::vector<ValueId> inputs, wrt, results;
    for (const TensorType& input : spec.inputs) {
      inputs.push_back(graph.input(input));
      if (is_float(input.dtype)) wrt.push_back(inputs.back());
    }
    for (const ValueId result : graph->emit(op, inputs, {spec.attributes.all().begin(), spec.attributes.all().end()}))
      if (is_float(graph->dtype(result))) results.push_back(result);
    const std::vector<ValueId> first = differentiate(graph.builder(), graph.weighted_sum(results), wrt);
    EXPECT_NO_THROW(static_cast<void>(differentiate(graph.builder(), graph.weighted_sum(first), wrt))) << name_of(op);
  }
}

/// Random numbers below a bound.
class Draws {
 public:
  std::int64_t below(std::int64_t bound) {
    float draw = 0;
    fill_uniform({&draw, 1}, 11, count_++);
    return std::min(bound - 1, static_cast<std::int64_t>(draw * static_cast<float>(bound)));
  }

 private:
  std::uint64_t count_ = 0;
};

TEST(Rules, RandomConvolutionsAgreeWithCentralDifferences) {
  Draws draws;
  for (int i = 0; i < 40; ++i) {
    const bool is_transposed = i % 2 == 1;
    const std::int64_t groups = 1 + draws.below(3);
    const std::int64_t from = groups * (1 + draws.below(2)), to = groups * (1 + draws.below(2));
    ConvolutionCase one{.x = {1 + draws.below(2), from, 6 + draws.below(4), 6 + draws.below(4)},
                        .weight = {is_transposed ? from : to, (is_transposed ? to : from) / groups, 1 + draws.below(3),
                                   1 + draws.below(3)},
                        .how = {.stride = {1 + draws.below(3), 1 + draws.below(3)},
                                .padding = {draws.below(3), draws.below(3), draws.below(3), draws.below(3)},
                                .dilation = {1 + draws.below(2), 1 + draws.below(2)},
                                .groups = groups}};
    if (is_transposed) one.output_padding = {draws.below(one.how.stride[0]), draws.below(one.how.stride[1])};
    const OpSpec spec = is_transposed
                            ? one.conv_transpose2d(DType::kF32, Layout::kRowMajor, DType::kF32)
                            : one.conv2d(DType::kF32, Layout::kRowMajor,
                                         {.bias = DType::kF32, .has_residual = true, .activation = Activation::kSilu});
    EXPECT_LE(error_of(spec), kMostError) << name_of(spec.op) << " " << one.text(DType::kF32, Layout::kRowMajor);
  }
}

TEST(Rules, RandomSizesAgreeWithCentralDifferences) {
  Draws draws;
  for (int i = 0; i < 30; ++i) {
    const Shape shape{1 + draws.below(3), 1 + draws.below(3), 2 + draws.below(5), 2 + draws.below(5)};
    const TensorType x{DType::kF32, shape};
    Ints axes;
    for (const std::int64_t axis : {0, 1, 2, 3})
      if (axis == 3 - i % 4 || draws.below(2) == 1) axes.push_back(axis);
    for (const Op op : {Op::kSum, Op::kMean, Op::kAmax, Op::kAmin})
      EXPECT_LE(error_of(make_spec(op, {x}, {{attr::kAxes, axes}})), kMostError) << name_of(op) << shape.to_string();
    const Ints size = {1 + draws.below(12), 1 + draws.below(12)};
    for (const ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kBilinear})
      EXPECT_LE(error_of(make_spec(Op::kResize2d, {x}, {{attr::kImageSize, size}, {attr::kMode, mode}})), kMostError)
          << name_of(mode) << shape.to_string() << size[0] << "x" << size[1];
    const std::int64_t k = 1 + draws.below(shape[3]);
    EXPECT_LE(error_of(make_spec(Op::kTopk, {x}, {{attr::kK, k}})), kMostError) << shape.to_string() << k;
    const std::int64_t groups = 1 + draws.below(3);
    const TensorType channels{DType::kF32, {2, 2 * groups + 2, 3, 2}}, vector{DType::kF32, {2 * groups + 2}};
    for (const std::int64_t counted : {2 * groups, groups})
      EXPECT_LE(error_of(make_spec(Op::kGroupNorm, {channels, vector, vector},
                                   {{attr::kGroups, groups}, {attr::kEps, 1e-5}, {attr::kChannels, counted}})),
                kMostError)
          << groups << " groups of " << counted << " channels";
  }
}

}  // namespace
}  // namespace headroom
