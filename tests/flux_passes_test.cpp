// The passes on the whole FLUX transformer: how often each fires, and that the exact ones change no number in any
// combination.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/interpreter.hpp"
#include "models/transformers/flux.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr Target kHopper{
    .device = DeviceKind::kCuda, .compute_capability = 90, .has_compiler = true, .fusion = &kLibraryRules};
constexpr double kParamScale = 0.25;  // about 1 / sqrt(dim), so that activations keep their size through the blocks

FluxConfig small_config(std::int64_t layers, std::int64_t single_layers) {
  return FluxConfig{.in_channels = 4,
                    .out_channels = 4,
                    .num_layers = layers,
                    .num_single_layers = single_layers,
                    .attention_head_dim = 8,
                    .num_attention_heads = 2,
                    .joint_attention_dim = 6,
                    .pooled_projection_dim = 5,
                    .guidance_embeds = true,
                    .axes_dims_rope = {2, 2, 4}};
}

/// A bf16 checkpoint computed in f32, as the baseline on a CPU is.
ParamSource bf16_checkpoint() {
  return {.dtype = [](std::string_view) { return DType::kBF16; }, .compute = DType::kF32};
}

Graph small_flux(std::int64_t layers, std::int64_t single_layers) {
  return build_flux_forward(small_config(layers, single_layers), {.batch = 2, .image_tokens = 5, .text_tokens = 3},
                            bf16_checkpoint());
}

struct Tensors {
  NamedTensors inputs, params, states;
};

Tensors random_inputs(const Graph& graph, std::uint64_t seed) {
  Tensors tensors{random_tensors(graph, ValueKind::kInput, seed), random_tensors(graph, ValueKind::kParam, seed),
                  random_tensors(graph, ValueKind::kState, seed)};
  for (auto& [name, tensor] : tensors.params)
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, tensor.at(i) * kParamScale);
  for (const char* ids : {"img_ids", "txt_ids"})
    for (std::int64_t i = 0; i < tensors.inputs.at(ids).numel(); ++i)
      tensors.inputs.at(ids).set(i, static_cast<double>(i % 7));
  return tensors;
}

OracleResult interpret_on(const Graph& graph, const Tensors& tensors) {
  return interpret(graph, tensors.inputs, tensors.params, tensors.states);
}

int rewrites_of(const OptimizeReport& report, std::string_view pass) {
  const auto record = std::ranges::find(report.passes, pass, &PassRecord::name);
  return record == report.passes.end() ? 0 : record->rewrites;
}

int count_nodes(const Graph& graph, Op op) {
  return static_cast<int>(std::ranges::count(graph.nodes(), op, &Node::op));
}

/// The names of the fusions and of the passes that always run: none changes a number.
std::vector<std::string> exact_passes() {
  std::vector<std::string> names;
  for (const Pass& pass : pipeline())
    if (pass.switch_name.empty() || pass.switch_name == "flash" || pass.switch_name == "fuse")
      names.emplace_back(pass.name);
  return names;
}

TEST(FluxPasses, EveryFusionFiresAtEachOfItsPlaces) {
  constexpr int kDouble = 2;
  constexpr int kSingle = 3;
  Graph graph = small_flux(kDouble, kSingle);
  const OptimizeReport report =
      optimize(graph, SwitchSet::parse("fuse"), kCapableCpu, {.disabled = {}, .verify = true});

  EXPECT_EQ(rewrites_of(report, "fuse-epilogue"), 2 * kDouble + kSingle + 3);  // MLPs, and three embedders
  EXPECT_EQ(rewrites_of(report, "fuse-qkv"), 2 * kDouble + kSingle);
  const int norms = 4 * kDouble + kSingle + 1, gates = 4 * kDouble + kSingle;
  EXPECT_EQ(rewrites_of(report, "fuse-patterns"), norms + gates);
  EXPECT_EQ(rewrites_of(report, "fuse-qk-norm-rope"), 2 * (kDouble + kSingle));
  EXPECT_EQ(rewrites_of(report, "fuse-attention-scale"), kDouble + kSingle);
  // All but one silu(temb), and all but one set of the 4 rows of rope tables that each double block cuts twice. In the last block,
  // of which no text is read, queries and the MLP read the same part of what is normed, and queries that of the tables.
  EXPECT_EQ(rewrites_of(report, "dead-rows"), 1);
  EXPECT_EQ(rewrites_of(report, "fuse-common-subexpressions"), 2 * kDouble + kSingle + 8 * kDouble - 4 + 3);
  EXPECT_EQ(rewrites_of(report, "dead-code"), 0) << "the fusions drop what they replace";
  EXPECT_TRUE(report.declined.empty());

  EXPECT_EQ(count_nodes(graph, Op::kQkNormRope), 4 * kDouble + 2 * kSingle);
  EXPECT_EQ(count_nodes(graph, Op::kSilu), 0);
  EXPECT_EQ(count_nodes(graph, Op::kFused), 1) << "silu(temb), with the sums that it is of";
  for (const Op op : {Op::kGeluTanh, Op::kLayerNorm, Op::kRmsNorm, Op::kRope, Op::kAddScalar})
    EXPECT_EQ(count_nodes(graph, op), 0) << name_of(op);
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kMulScalar) continue;
    EXPECT_TRUE(node.path.ends_with("norm_q") || node.path.ends_with("norm_added_q")) << node.path;
  }
}

TEST(FluxPasses, ExactPassesChangeNoNumberInAnyCombination) {
  const Graph plain = small_flux(1, 1);
  const Tensors tensors = random_inputs(plain, 11);
  const OracleResult expected = interpret_on(plain, tensors);
  std::vector<std::string> exact = exact_passes();
  for (const char* pass : {"merge-rows", "inline-loops"})
    std::erase(exact, pass);       // have nothing to do where there is no loop
  std::erase(exact, "write-out");  // nor this where all ops have kernels
  for (const char* pass : {"fuse-upsample", "fuse-concats"})
    std::erase(exact, pass);  // nor these where there are no images, and no memory whose keys are behind others
  for (const char* pass : {"fuse-rows", "fuse-token-epilogue", "fuse-shortcut", "fuse-group-norm", "repeat-choices"})
    std::erase(exact, pass);               // nor these on a CPU
  std::erase(exact, "fuse-conditioning");  // nor this for weights as small as these
  ASSERT_EQ(exact.size(), 11U);

  for (unsigned enabled = 0; enabled < 1U << exact.size(); ++enabled) {
    std::vector<std::string> disabled;
    for (std::size_t i = 0; i < exact.size(); ++i)
      if ((enabled >> i & 1U) == 0) disabled.push_back(exact[i]);
    const auto is_on = [&](std::string_view pass) { return std::ranges::find(disabled, pass) == disabled.end(); };
    Graph graph = plain;
    const OptimizeReport report =
        optimize(graph, SwitchSet::parse("flash,fuse"), kCapableCpu, {.disabled = disabled, .verify = true});

    ASSERT_LE(distance(interpret_on(graph, tensors), expected), 1e-12) << fmt::format("{}", fmt::join(disabled, ","));
    // No fusion spoils another's patterns; only the scale needs what an earlier one leaves of joined streams, unless attention has
    // taken it, and merging needs weights first.
    ASSERT_EQ(rewrites_of(report, "flash-attention"), is_on("flash-attention") ? 2 : 0);
    ASSERT_EQ(rewrites_of(report, "fuse-epilogue"), is_on("fuse-epilogue") ? 6 : 0);
    ASSERT_EQ(rewrites_of(report, "fuse-qkv"), is_on("fuse-qkv") && is_on("weights-first") ? 3 : 0);
    ASSERT_EQ(rewrites_of(report, "fuse-patterns"), is_on("fuse-patterns") ? 6 + 5 : 0);
    ASSERT_EQ(rewrites_of(report, "fuse-qk-norm-rope"), is_on("fuse-qk-norm-rope") ? 4 : 0);
    const int scaled = is_on("fuse-qk-norm-rope") ? 2 : 1;
    ASSERT_EQ(rewrites_of(report, "fuse-attention-scale"),
              is_on("fuse-attention-scale") && !is_on("flash-attention") ? scaled : 0);
  }
}

TEST(FluxPasses, OnAGpuASumIsNormedWhereItIsMade) {
  const Graph plain = small_flux(1, 1);
  const Tensors tensors = random_inputs(plain, 11);
  Graph graph = plain;
  const OptimizeReport report =
      optimize(graph, SwitchSet::parse("flash,fuse"), kHopper, {.disabled = {}, .verify = true});
  EXPECT_LE(distance(interpret_on(graph, tensors), interpret_on(plain, tensors)), 1e-12);
  // Between attention and the MLP of text and of image; after the MLP both go into one sequence, of which the last block norms the part
  // that is read. And queries with keys, of text and of image; those of that sequence are of fewer rows than its keys.
  EXPECT_EQ(rewrites_of(report, "fuse-rows"), 4 + 2 + 2);
}

TEST(FluxPasses, Bf16ComesWithinItsRoundingAndReadsTheCheckpointAsItIs) {
  const Graph plain = small_flux(2, 2);
  const Tensors tensors = random_inputs(plain, 12);
  const OracleResult expected = interpret_on(plain, tensors);
  for (const char* switches : {"bf16", "fuse,bf16"}) {
    Graph graph = plain;
    const OptimizeReport report =
        optimize(graph, SwitchSet::parse(switches), kCapableCpu, {.disabled = {}, .verify = true});
    EXPECT_TRUE(report.declined.empty()) << switches;
    EXPECT_LE(distance(interpret_on(graph, tensors), expected), 1e-2) << switches;

    const std::vector<bool> is_weight = find_weight_values(graph);
    for (const Node& node : graph.nodes()) {
      const bool is_gemm = node.op == Op::kLinear || node.op == Op::kMatmul;
      const bool weight = is_weight[index_of(node.results[0])];
      if (is_gemm || (weight && node.op == Op::kConcat)) {
        EXPECT_EQ(graph.type(node.results[0]).dtype, DType::kBF16) << describe(node);
      }
      if (weight && node.op == Op::kCast) {
        EXPECT_NE(node.path.find("norm"), std::string::npos)
            << describe(node) << ": only a norm's weight is scaled, in f32";
      }
    }
  }
}

TEST(FluxPasses, Fp8QuantizesEveryMatmulOfTheBlocksOnce) {
  constexpr int kDouble = 2;
  constexpr int kSingle = 3;
  FluxConfig config = small_config(kDouble, kSingle);
  config.attention_head_dim = 16;  // widths that tensor cores take
  config.axes_dims_rope = {4, 4, 8};
  const Graph plain =
      build_flux_forward(config, {.batch = 1, .image_tokens = 160, .text_tokens = 128}, bf16_checkpoint());
  Graph graph = plain;
  const OptimizeReport report =
      optimize(graph, SwitchSet::parse("flash,fuse,bf16,fp8"), kHopper, {.disabled = {}, .verify = true});
  EXPECT_TRUE(report.declined.empty());

  // Queries, keys and values together, what follows attention, and both of the MLP, by stream; a single block has one
  // product less, for attention and MLP end in one, and the last has one more, for it needs queries of the image alone.
  EXPECT_EQ(rewrites_of(report, "fp8"), 8 * kDouble + 3 * kSingle + 1);
  EXPECT_EQ(count_nodes(graph, Op::kScaledLinear), 8 * kDouble + 3 * kSingle + 1);
  // Every norm of a block quantizes what it makes, once for all that read it.
  const std::vector<bool> is_weight = find_weight_values(graph);
  int quantized = 0;
  for (const Node& node : graph.nodes())
    if (node.op == Op::kQuantize && !is_weight[index_of(node.results[0])]) ++quantized;
  EXPECT_EQ(quantized, 4 * kDouble + kSingle);

  const auto record = std::ranges::find(report.passes, "fp8", &PassRecord::name);
  std::vector<std::string> kept;
  for (const PassNote& note : record->notes)
    for (const std::string& node : note.nodes)
      if (!note.reason.starts_with("conditioning")) kept.push_back(node);
  std::ranges::sort(kept);
  EXPECT_EQ(kept, (std::vector<std::string>{"context_embedder", "proj_out", "x_embedder"}));

  const Tensors tensors = random_inputs(plain, 15);
  const double error = distance(interpret_on(graph, tensors), interpret_on(plain, tensors));
  EXPECT_LE(error, 1e-1);
  EXPECT_GE(error, 2e-3) << "this is not FP8";
}

/// Three steps of a sampler around the transformer with one block of each kind.
Graph small_sampler() {
  const FluxConfig config = small_config(1, 1);
  Graph plain("sampler");
  const auto input = [&](const char* name, Shape shape) {
    return plain.add_input(name, TensorType{.dtype = DType::kF32, .shape = shape});
  };
  const ValueId latents = plain.add_state("latents", TensorType{.dtype = DType::kF32, .shape = {1, 5, 4}});
  FluxInputs inputs{.hidden_states = latents,
                    .encoder_hidden_states = input("encoder_hidden_states", {1, 3, 6}),
                    .pooled_projections = input("pooled_projections", {1, 5}),
                    .timestep = kNoValue,
                    .img_ids = input("img_ids", {5, 3}),
                    .txt_ids = input("txt_ids", {3, 3}),
                    .guidance = input("guidance", {1})};
  const ValueId timesteps = input("timesteps", {3, 1});
  Builder builder(plain);
  {
    const Builder::Loop loop = builder.loop(3, "step");
    inputs.timestep = builder.row(timesteps, loop.counter());
    const ValueId velocity = build_flux(builder, config, inputs, bf16_checkpoint());
    plain.set_next(latents, builder.add(latents, builder.mul_scalar(velocity, -0.25)), builder.region());
  }
  plain.add_output("latents", latents);
  return plain;
}

TEST(FluxPasses, HoistLeavesTheLoopRowsOfAllThatTheStepDecides) {
  const Graph plain = small_sampler();
  const Tensors tensors = random_inputs(plain, 14);
  const OracleResult expected = interpret_on(plain, tensors);
  for (const char* switches : {"hoist", "fuse,hoist"}) {
    Graph graph = plain;
    const OptimizeReport report =
        optimize(graph, SwitchSet::parse(switches), kCapableCpu, {.disabled = {}, .verify = true});
    EXPECT_TRUE(report.declined.empty()) << switches;
    EXPECT_LE(distance(interpret_on(graph, tensors), expected), 1e-12) << switches;
    int rows = 0;
    for (const Node& node : graph.nodes()) {
      if (node.region == kTopRegion) continue;
      for (const Op op : {Op::kTimestepEmbedding, Op::kRopeTable, Op::kSilu})
        EXPECT_NE(node.op, op) << switches << ": " << describe(node);
      const bool modulation = node.path.find("norm") != std::string::npos && node.path.ends_with(".linear");
      EXPECT_FALSE(node.op == Op::kLinear && (modulation || node.path == "context_embedder")) << describe(node);
      if (node.op == Op::kRow) ++rows;
    }
    // A table for each modulation; without fusion also for 1 + scale of the six norms. The loop reads one row of each
    // kind.
    const bool is_alone = std::string_view(switches) == "hoist";
    EXPECT_EQ(rewrites_of(report, "merge-rows"), is_alone ? 4 + 6 : 4) << switches;
    EXPECT_EQ(rows, is_alone ? 2 : 1) << switches;
  }
}

TEST(FluxPasses, HoldInsideASamplersLoop) {
  const Graph plain = small_sampler();
  const Tensors tensors = random_inputs(plain, 13);
  const OracleResult expected = interpret_on(plain, tensors);

  for (const auto& [switches, tolerance] :
       {std::pair("fuse", 1e-12), std::pair("fuse,bf16", 1e-2), std::pair("flash,fuse,hoist,bf16", 1e-2)}) {
    Graph graph = plain;
    const OptimizeReport report =
        optimize(graph, SwitchSet::parse(switches), kCapableCpu, {.disabled = {}, .verify = true});
    EXPECT_EQ(rewrites_of(report, "fuse-qkv"), 3) << switches;
    EXPECT_LE(distance(interpret_on(graph, tensors), expected), tolerance) << switches;
    const std::vector<bool> is_weight = find_weight_values(graph);
    for (const Node& node : graph.nodes())
      EXPECT_TRUE(!is_weight[index_of(node.results[0])] || node.region == kTopRegion) << describe(node);
  }
}

}  // namespace
}  // namespace headroom
