#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"

// Properties of every graph, tested on random ones with nested loops, states, mixed dtypes and fused ops.

namespace headroom {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kSeq = 3;
constexpr std::int64_t kWidth = 8;

/// Builds a graph of [batch, seq, width] values by random choices; all values stay finite and readable.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed) {}

  Graph make() {
    const DType dtype = pick(2) == 0 ? DType::kF32 : DType::kBF16;
    tokens_ = {dtype, Shape{kBatch, kSeq, kWidth}};
    visible_.push_back(graph_.add_input("x", tokens_));
    visible_.push_back(graph_.add_input("odd name", tokens_));
    modulation_ = {graph_.add_input("mod", {dtype, Shape{kBatch, 1, kWidth}}),
                   graph_.add_input("mod f32", {DType::kF32, Shape{kBatch, 1, kWidth}})};
    hit_ = graph_.add_input("hit", {DType::kBool, Shape{}});
    table_ = graph_.add_input("table", {dtype, Shape{4, kWidth}});
    std::tie(cos_, sin_) = b_.rope_table(graph_.add_input("ids", {DType::kI32, Shape{kSeq, 1}}), {kWidth / 2});
    for (int i = 0; i < 3; ++i) {
      // "x" is also an input: names are unique within a kind only.
      constant_states_.push_back(graph_.add_state(i == 0 ? "x" : fmt::format("s{}", i), tokens_));
      visible_.push_back(constant_states_.back());
    }
    fill_region(0);
    for (int i = 0; i < 3; ++i) graph_.add_output(fmt::format("y{}", i), any());
    return std::move(graph_);
  }

 private:
  int pick(int choices) { return std::uniform_int_distribution<int>(0, choices - 1)(random_); }
  ValueId any() { return b_.read(visible_[static_cast<std::size_t>(pick(static_cast<int>(visible_.size())))]); }

  void fill_region(int depth) {
    const int items = 2 + pick(6);
    for (int i = 0; i < items; ++i) {
      if (depth < 3 && pick(4) == 0) {
        pick(2) == 0 ? add_loop(depth) : add_if(depth);
      } else {
        const auto scope = b_.scope(fmt::format("m{}", pick(3)));
        visible_.push_back(add_node());
      }
    }
    if (pick(2) == 0) update_state();
  }

  /// A state without an update, because a second one is not allowed.
  void update_state() {
    if (constant_states_.empty()) return;
    const auto state = constant_states_.begin() + pick(static_cast<int>(constant_states_.size()));
    b_.set_next(*state, any());
    constant_states_.erase(state);
  }

  void add_loop(int depth) {
    const std::size_t visible = visible_.size();
    const std::vector<ValueId> counters = counters_;
    const auto loop = b_.loop(1 + pick(3), fmt::format("i{}", graph_.regions().size()));
    counters_.push_back(loop.counter());
    if (pick(6) == 0 && !constant_states_.empty()) {
      update_state();  // a loop without nodes
    } else {
      fill_region(depth + 1);
    }
    counters_ = counters;
    visible_.resize(visible);
  }

  void add_if(int depth) {
    const std::size_t visible = visible_.size();
    const Builder::Branch branch = [&] {
      if (pick(4) > 0) fill_region(depth + 1);
      std::vector<ValueId> yields = {any(), any()};
      visible_.resize(visible);
      return yields;
    };
    const std::vector<ValueId> instead = {any(), any()};
    const std::vector<ValueId> results =
        pick(2) == 0 ? b_.select(hit_, branch, branch) : b_.run_if(hit_, branch, instead);
    visible_.insert(visible_.end(), results.begin(), results.end());
  }

  ValueId add_node() {
    switch (pick(15)) {
      case 0:
        return b_.add(any(), any());
      case 1:
        return b_.mul_scalar(b_.sub(any(), any()), 1.0 / (1 + pick(7)));
      case 2:
        return b_.silu(any());
      case 3:
        return b_.gelu(any(), pick(2) == 0 ? "tanh" : "none");
      case 4:
        return b_.softmax(any());
      case 5:
        return linear(pick(2) == 0 ? Activation::kSilu : Activation::kGeluTanh);
      case 6:
        return linear(Activation::kNone);
      case 7:
        return norm_modulate();
      case 8:
        return b_.emit(Op::kGateResidual, {any(), modulation_[static_cast<std::size_t>(pick(2))], any()})[0];
      case 9:
        return qk_norm_rope();
      case 10:
        return b_.cast(b_.cast(any(), DType::kF8E4M3), tokens_.dtype);
      case 11:
        return b_.concat({b_.slice(any(), 1, 0, 1), b_.slice(any(), 1, 1, 2)}, 1);
      case 12:
        return attention();
      case 13:
        return b_.emit(Op::kCumsum, {b_.softmax(any())})[0];
      default:
        break;
    }
    if (counters_.empty()) return b_.layer_norm(any(), 1e-5);
    return b_.add(any(), b_.row(table_, counters_.back()));  // loops run at most three times; the table has four rows
  }

  ValueId linear(Activation activation) {
    const ValueId weight = b_.param("weight", {tokens_.dtype, Shape{kWidth, kWidth}});
    const ValueId bias = pick(2) == 0 ? kNoValue : b_.param("bias", {DType::kF32, Shape{kWidth}});
    return b_.linear(any(), weight, {.bias = bias, .activation = activation});
  }

  ValueId norm_modulate() {
    const ValueId vector = modulation_[static_cast<std::size_t>(pick(2))];
    return b_.emit(Op::kNormModulate, {any(), vector, vector}, {{"eps", 1e-6}})[0];
  }

  ValueId attention() {
    const auto heads = [&] { return b_.reshape(any(), {kBatch, 2, kSeq, kWidth / 2}); };
    const ValueId q = heads(), k = heads(), v = heads();
    Builder::Attention with{.scale = 0.25, .causal = pick(2) == 0};
    if (with.causal) with.diagonal = pick(5) - 2;
    if (pick(2) == 0) return b_.reshape(b_.attention(q, k, v, with), {kBatch, kSeq, kWidth});
    const auto [result, logsumexp] = b_.attention_and_logsumexp(q, k, v, with);  // merged over the heads
    const ValueId merged = b_.merge_attention(result, logsumexp, 1);             // [batch, seq, width / 2]
    return b_.concat({merged, merged}, 2);
  }

  ValueId qk_norm_rope() {
    const ValueId weight = b_.param("norm.weight", {DType::kF32, Shape{kWidth / 2}});
    const ValueId rotated =
        b_.emit(Op::kQkNormRope, {any(), weight, cos_, sin_}, {{"heads", std::int64_t{2}}, {"eps", 1e-6}})[0];
    return b_.reshape(b_.transpose(rotated, {0, 2, 1, 3}), {kBatch, kSeq, -1});
  }

  std::mt19937_64 random_;
  Graph graph_{"random"};
  Builder b_{graph_};
  TensorType tokens_;
  std::vector<ValueId> visible_;
  std::vector<ValueId> constant_states_;
  std::vector<ValueId> counters_;
  std::vector<ValueId> modulation_;
  ValueId hit_ = kNoValue, table_ = kNoValue, cos_ = kNoValue, sin_ = kNoValue;
};

/// Random contents for all values of a kind.
NamedTensors random_tensors(const Graph& graph, ValueKind kind, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  NamedTensors tensors;
  for (const ValueId id : graph.values_of(kind)) {
    HostTensor tensor(graph.type(id).dtype, graph.type(id).shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, normal(random));
    tensors.emplace(graph.value(id).name, std::move(tensor));
  }
  return tensors;
}

OracleResult run(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const NamedTensors inputs = random_tensors(graph, ValueKind::kInput, random);
  const NamedTensors params = random_tensors(graph, ValueKind::kParam, random);
  return interpret(graph, inputs, params, random_tensors(graph, ValueKind::kState, random));
}

/// Compares bits: a NaN equals itself.
void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes(), b.at(name).bytes())) << name;
  }
}

class GraphLaws : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, GraphLaws, testing::Range<std::uint64_t>(0, 40));

TEST_P(GraphLaws, TheBuilderMakesSoundGraphs) { EXPECT_NO_THROW(verify(RandomGraph(GetParam()).make())); }

TEST_P(GraphLaws, PrintingAParsedGraphPrintsItsText) {
  const Graph graph = RandomGraph(GetParam()).make();
  const Graph parsed = parse_graph(print(graph));
  verify(parsed);
  EXPECT_EQ(canonical_text(parsed), canonical_text(graph));
  const std::string text = print(parsed);
  EXPECT_EQ(print(parse_graph(text)), text);
}

TEST_P(GraphLaws, AParsedGraphComputesTheSame) {
  const Graph graph = RandomGraph(GetParam()).make();
  const OracleResult expected = run(graph, GetParam());
  const OracleResult actual = run(parse_graph(canonical_text(graph)), GetParam());
  expect_same(expected.outputs, actual.outputs);
  expect_same(expected.states, actual.states);
}

TEST_P(GraphLaws, AnExpandedGraphIsPlainAndComputesTheSame) {
  const Graph graph = RandomGraph(GetParam()).make();
  const Graph expanded = expand(graph);
  verify(expanded);
  for (const Node& node : expanded.nodes()) EXPECT_FALSE(is_fused(node.op, node.attributes)) << describe(node);
  const OracleResult expected = run(graph, GetParam());
  const OracleResult actual = run(expanded, GetParam());
  expect_same(expected.outputs, actual.outputs);
  expect_same(expected.states, actual.states);
}

/// Checks the generator: graphs without any content would satisfy all properties.
TEST(RandomGraphs, CoverLoopsStatesAndFusedOps) {
  int nested_loops = 0;
  int empty_loops = 0;
  int updates = 0;
  int fused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = RandomGraph(seed).make();
    std::vector<int> nodes_in(graph.regions().size(), 0);
    for (const Node& node : graph.nodes()) {
      fused += is_fused(node.op, node.attributes) ? 1 : 0;
      ++nodes_in[static_cast<std::size_t>(node.region)];
    }
    for (std::size_t i = 1; i < graph.regions().size(); ++i) {
      nested_loops += graph.regions()[i].parent != kTopRegion ? 1 : 0;
      empty_loops += nodes_in[i] == 0 ? 1 : 0;
    }
    updates += static_cast<int>(graph.state_updates().size());
  }
  EXPECT_GT(nested_loops, 20);
  EXPECT_GT(empty_loops, 3);
  EXPECT_GT(updates, 40);
  EXPECT_GT(fused, 100);
}

}  // namespace
}  // namespace headroom
