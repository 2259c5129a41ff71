#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "ir/fusion_rules.hpp"
#include "ir/infer.hpp"
#include "ir/interpreter.hpp"
#include "ir/op_definition.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/pass.hpp"

/// Shared by tests of passes; included by *_test.cpp only.
namespace headroom {

/// Kernels with the epilogues of libraries: of convolutions a residual and an activation; of matmuls an activation, or,
/// on a GPU, a residual; of group norms an activation; of transposed convolutions, and of matmuls of two activations,
/// nothing. Nothing computes a cross-entropy. Hopper takes a shortcut into a convolution. GPUs read channels of images
/// in vectors of 16 bytes. Generated kernels run any body.
class LibraryRules final : public FusionRules {
 public:
  [[nodiscard]] bool runs(const Target& target, Op op, const Attributes& attributes,
                          const std::vector<TensorType>& inputs, const TensorType& result) const override {
    HR_CHECK(infer(op, attributes, inputs)[0].shape == result.shape);  // what is asked about is a node
    const bool is_gpu = target.device->has_launches;
    if (op == Op::kScaledLinear && inputs[0].dtype != (is_gpu ? DType::kF8E4M3 : DType::kI8)) return false;
    if (op == Op::kFused) return target.has_compiler;
    if (op == Op::kCrossEntropy) return false;
    if (!attributes.has(attr::kEpilogue)) return true;
    if (op == Op::kConv2dShortcut) return target.compute_capability == 90 && takes_shortcut(inputs, result);
    const std::optional<EpilogueForm> form = form_of(attributes[attr::kEpilogue]);
    if (op == Op::kConvTranspose2d || op == Op::kMatmul) return attributes[attr::kEpilogue].is_empty();
    if (!form || !form->adds_operand) return form.has_value();
    const bool has_room = op == Op::kConv2d || (is_matmul(op) && is_gpu && form->activation == Activation::kNone);
    return has_room && inputs.back() == result;
  }

  [[nodiscard]] ImageForm best_images(const Target& target, Op /*op*/, const Attributes& attributes,
                                      const std::vector<TensorType>& inputs, const TensorType& result) const override {
    const bool is_vector_unit = result.dtype == DType::kF32 && !attributes[attr::kTf32];
    const std::int64_t vector = is_vector_unit ? 1 : 16 / static_cast<std::int64_t>(size_of(result.dtype));
    const bool is_full = inputs[0].shape[1] % vector == 0 && result.shape[1] % vector == 0;
    const bool is_fast = is_full || target.device == DeviceKind::kCpu;
    return {.layout = is_fast ? Layout::kChannelsLast : Layout::kRowMajor, .channel_multiple = vector};
  }

 private:
  [[nodiscard]] static bool takes_shortcut(const std::vector<TensorType>& inputs, const TensorType& result) {
    constexpr std::int64_t kPack = 8;
    const auto has_packs = [](const TensorType& image) { return image.shape[1] % kPack == 0; };
    return (result.dtype == DType::kF16 || result.dtype == DType::kBF16) && result.layout == Layout::kChannelsLast &&
           has_packs(inputs[0]) && has_packs(inputs[3]) && has_packs(result);
  }
};
inline const LibraryRules kLibraryRules;

/// A CPU on which no pass declines because a matrix or vector unit is missing.
inline constexpr Target kCapableCpu{
    .device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAvx512Bf16, .threads = 1, .fusion = &kLibraryRules};

/// A GPU for which kernels are generated.
inline constexpr Target kGeneratingGpu{
    .device = DeviceKind::kCuda, .compute_capability = 90, .has_compiler = true, .fusion = &kLibraryRules};

/// Runs the pipeline's pass of that name, between two verifications; with the argument of its switch, if any.
inline PassOutcome run_pass(std::string_view name, Graph& graph, const Target& target = kCapableCpu,
                            std::string_view argument = {}) {
  const auto pass = std::ranges::find(pipeline(), name, &Pass::name);
  HR_CHECK(pass != pipeline().end());
  verify(graph);
  PassOutcome outcome = pass->run(graph, target, argument);
  verify(graph);
  return outcome;
}

/// A tensor for every value of `kind`: standard normals rounded to its dtype, zeros where it holds integers.
inline NamedTensors random_tensors(const Graph& graph, ValueKind kind, std::uint64_t seed) {
  NamedTensors tensors;
  for (const ValueId id : graph.values_of(kind)) {
    const Value& value = graph.value(id);
    HostTensor tensor(value.type.dtype, value.type.shape);
    std::vector<float> normals(static_cast<std::size_t>(tensor.numel()));
    if (is_float(value.type.dtype)) fill_normal(normals, seed, static_cast<std::uint64_t>(index_of(id)));
    for (std::size_t i = 0; i < normals.size(); ++i)
      tensor.set(static_cast<std::int64_t>(i), static_cast<double>(normals[i]));
    tensors.emplace(value.name, std::move(tensor));
  }
  return tensors;
}

inline OracleResult interpret_on_random(const Graph& graph, std::uint64_t seed) {
  return interpret(graph, random_tensors(graph, ValueKind::kInput, seed),
                   random_tensors(graph, ValueKind::kParam, seed), random_tensors(graph, ValueKind::kState, seed));
}

/// The largest ||a - b||_2 / ||b||_2 over the tensors of b; infinite if a lacks one or holds a NaN.
inline double distance(const NamedTensors& a, const NamedTensors& b) {
  double largest = 0;
  for (const auto& [name, expected] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.shape() != expected.shape()) return std::numeric_limits<double>::infinity();
    const double relative = relative_l2(found->second, expected);
    if (std::isnan(relative)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, relative);
  }
  return largest;
}

/// The largest relative distance between two results of the oracle: outputs and states.
inline double distance(const OracleResult& a, const OracleResult& b) {
  return std::max(distance(a.outputs, b.outputs), distance(a.states, b.states));
}

/// One graph of a diff: without the marks of lines that begin with `own`, and without lines that begin with the other
/// of - and +.
inline Graph parse_side(std::string_view diff, char own) {
  std::string text;
  std::istringstream lines{std::string(diff)};
  for (std::string line; std::getline(lines, line); text += line + '\n') {
    const std::size_t mark = line.find_first_not_of(' ');
    if (mark == std::string::npos || (line[mark] != '-' && line[mark] != '+')) continue;
    line = line[mark] == own ? line.substr(mark + 1) : "";
  }
  return parse_graph(text);
}

/// The graphs of a diff: - marks the lines of the first alone, + those of the second alone.
inline Graph graph_before(std::string_view diff) { return parse_side(diff, '-'); }
inline Graph graph_after(std::string_view diff) { return parse_side(diff, '+'); }

/// The text, or diff, of a graph whose first lines are also those of other tests.
inline std::string graph_text(std::string_view common, std::string_view lines) {
  return fmt::format("graph g {{\n{}\n{}\n}}", common, lines);
}

/// Expects the pass to turn the first graph of the diff into the second, with `rewrites` rewrites, and both to compute
/// the same on random tensors up to `tolerance` (relative, in the 2-norm).
inline void expect_rewrite(std::string_view pass, std::string_view diff, int rewrites = 1, double tolerance = 1e-12,
                           std::string_view argument = {}, const Target& target = kCapableCpu) {
  const Graph original = graph_before(diff);
  Graph graph = original;
  const PassOutcome outcome = run_pass(pass, graph, target, argument);
  EXPECT_EQ(outcome.rewrites, rewrites);
  EXPECT_EQ(outcome.declined, std::nullopt);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(diff)));
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), tolerance);
}

/// Expects the pass to find nothing in the graph and to leave it unchanged.
inline void expect_unchanged(std::string_view pass, std::string_view text, const Target& target = kCapableCpu) {
  Graph graph = parse_graph(text);
  const std::string before = canonical_text(graph);
  EXPECT_EQ(run_pass(pass, graph, target).rewrites, 0);
  EXPECT_EQ(canonical_text(graph), before);
}

}  // namespace headroom
