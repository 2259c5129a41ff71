#include <array>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "ir/fused_body.hpp"
#include "ir/ops/append_graph.hpp"
#include "ir/ops/families.hpp"
#include "ir/test_cases/attention_sizes.hpp"
#include "ir/test_cases/fused_cases.hpp"
#include "ir/test_cases/op_cases.hpp"
#include "ir/text/text.hpp"

// The op that holds a graph.

namespace headroom {

namespace {

Graph parse_body(const std::string& text) {
  Graph body = parse_graph(text);
  const bool is_straight = body.regions().size() == 1 && body.values_of(ValueKind::kParam).empty() &&
                           body.values_of(ValueKind::kState).empty() && body.blocks().empty();
  if (!is_straight || body.outputs().empty())
    fail("fused: the body must be inputs, nodes and outputs, without params, states, regions and blocks");
  for (const Node& node : body.nodes())
    if (node.op == Op::kFused) fail("fused: the body must hold no fused op itself");
  return body;
}

}  // namespace

const Graph& body_of(const Attributes& attributes) {
  const std::string& text = attributes[attr::kBody];
  FusedBody* const body = attributes.fused_body();
  HR_CHECK(body != nullptr);
  std::call_once(body->is_made, [&] { body->graph.emplace(parse_body(text)); });
  return *body->graph;
}

std::vector<ValueId> append_graph(Builder& builder, const Graph& graph, std::vector<ValueId> values) {
  HR_CHECK(graph.regions().size() == 1 && values.size() == graph.value_count());
  for (const Node& node : graph.nodes()) {
    const auto scope = builder.scope(node.path);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(values[index_of(input)]);
    builder.graph().append(node.op, std::move(inputs), node.attributes, builder.path(), builder.region());
    const std::vector<ValueId> results = builder.graph().nodes().back().results;
    for (std::size_t i = 0; i < results.size(); ++i) values[index_of(node.results[i])] = results[i];
  }
  std::vector<ValueId> results;
  for (const Output& output : graph.outputs()) results.push_back(values[index_of(output.value)]);
  return results;
}

namespace ops {
namespace {

std::vector<TensorType> fused_types(const TypeQuery& given) {
  const Graph& body = body_of(given.attributes);
  const std::vector<ValueId> inputs = body.values_of(ValueKind::kInput);
  given.require(inputs.size() == given.in.size(), fmt::format("{} operands, as the body has inputs", inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& wanted = body.type(inputs[i]);
    given.require(wanted.dtype == given.in[i].dtype && wanted.shape == given.in[i].shape,
                  fmt::format("{} as operand {}, as the body has it", wanted, i));
  }
  std::vector<TensorType> results;
  for (const Output& output : body.outputs()) results.push_back(body.type(output.value));
  return results;
}

std::vector<ValueId> expand_fused(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const Graph& body = body_of(attributes);
  std::vector<ValueId> values(body.value_count(), kNoValue);
  std::size_t next = 0;
  for (const ValueId input : body.values_of(ValueKind::kInput)) values[index_of(input)] = in[next++];
  const Graph plain = expand(body);
  values.resize(plain.value_count(), kNoValue);
  return append_graph(builder, plain, std::move(values));
}

double fused_flops(const Attributes& attributes, Types /*in*/, Types /*out*/) {
  const Graph& body = body_of(attributes);
  const auto types_of = [&](const std::vector<ValueId>& values) {
    std::vector<TensorType> types;
    for (const ValueId value : values) types.push_back(body.type(value));
    return types;
  };
  double flops = 0;
  for (const Node& node : body.nodes())
    flops += definition_of(node.op).flops.count(node.attributes, types_of(node.inputs), types_of(node.results));
  return flops;
}

/// silu(group_norm(x) * (scale + 1) + offset) as one body.
OpSpec modulated_group_norm(const CaseList& list) {
  Graph body("body");
  Builder b(body);
  const TensorType pixels = list.data({2, 64, 8, 8}, Layout::kChannelsLast), vector = list.vector({2, 64, 1, 1});
  const auto input = [&](const char* name, const TensorType& type) {
    return b.cast(body.add_input(name, type), DType::kF32);
  };
  const ValueId normed = b.group_norm(input("x", pixels), 4, 1e-5);
  const ValueId scaled = b.mul(normed, b.add_scalar(input("scale", vector), 1));
  body.add_output("y", b.cast(b.silu(b.add(scaled, input("offset", vector))), pixels.dtype));
  return make_spec(Op::kFused, {pixels, vector, vector}, {{attr::kBody, canonical_text(body)}});
}

void fused_cases(CaseList& list) {
  const auto [data, vector] = list.types();
  const auto add = [&](const FusedCase& body, const std::string& name) {
    OpCase& added = list.add(name, body.spec);
    added.tolerance = tolerance_of(body, added.tolerance);
    const bool makes_integers = body.spec.outputs[0].dtype == DType::kU8;
    if (makes_integers) added.leaves_open = [](std::size_t, Special) { return true; };  // a NaN is no integer
  };
  for (const FusedCase& body : FusedCases(data, vector, 5, 48).list(/*with_f8=*/false)) add(body, body.name);
  for (const FusedCase& body : FusedCases(data, vector, 5, 48).list(/*with_f8=*/true))
    if (body.name.ends_with(", quantized")) add(body, body.name + " to f8e4m3");
  // Kernels multiply x and the mean by an infinite factor before they subtract.
  list.add("group norm, modulation, silu", modulated_group_norm(list)).leaves_open =
      [](std::size_t input, Special special) { return input > 0 && special == Special::kInfinities; };
}

/// The queries and keys of an attention, normalized and rotated, as fuse-rows makes one body of both: in bf16, or in
/// 8 bits with their scales.
OpSpec norm_and_rotation(const AttentionSize& size, bool quantizes) {
  Graph body("norm_rope");
  Builder b(body);
  const ValueId cos = body.add_input("cos", {DType::kF32, {size.tokens, size.dim / 2}});
  const ValueId sin = body.add_input("sin", {DType::kF32, {size.tokens, size.dim / 2}});
  std::vector<TensorType> inputs = {body.type(cos), body.type(sin)};
  for (const std::string_view which : {"q", "k"}) {
    const ValueId x = body.add_input(std::string(which), size.operand(DType::kBF16));
    const ValueId weight = body.add_input(fmt::format("{}_weight", which), {DType::kBF16, {size.dim}});
    inputs.insert(inputs.end(), {body.type(x), body.type(weight)});
    const ValueId normed = b.rms_norm(b.cast(x, DType::kF32), b.cast(weight, DType::kF32), 1e-6);
    const ValueId rotated = b.rope(normed, cos, sin);
    if (quantizes) {
      const std::vector<ValueId> made = b.emit(Op::kQuantize, {rotated}, {{attr::kDType, DType::kI8}});
      body.add_output(fmt::format("{}_elements", which), made[0]);
      body.add_output(fmt::format("{}_scale", which), made[1]);
    } else {
      body.add_output(fmt::format("{}_made", which), b.cast(rotated, DType::kBF16));
    }
  }
  return make_spec(Op::kFused, std::move(inputs), {{attr::kBody, canonical_text(body)}});
}

void fused_benchmarks(CaseList& list) {
  for (const AttentionSize& size : kEightBitSizes)
    for (const bool quantizes : {false, true}) {
      const std::string_view what = quantizes ? "norm, rotation and quantizer" : "before: norm and rotation";
      list.add(fmt::format("8-bit attention, {} of q and k of {}", what, size.name()),
               norm_and_rotation(size, quantizes))
          .is_for_gpus = true;
    }
}

constexpr std::array kFused = {OpDefinition{.op = Op::kFused,
                                            .infer = fused_types,
                                            .expand = expand_fused,
                                            .flops = fused_flops,
                                            .any_layout = true,
                                            .stays_f32 = true,
                                            .cases = fused_cases,
                                            .benchmarks = fused_benchmarks}};

}  // namespace

std::span<const OpDefinition> fused() { return kFused; }

}  // namespace ops
}  // namespace headroom
