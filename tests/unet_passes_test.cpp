// The passes on whole U-Nets at their own size: which fire, and how often. That they change no number, unets_test.cpp shows.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "models/unets/unet2d.hpp"
#include "models/unets/unet2d_condition.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr Target kH200{.device = DeviceKind::kCuda,
                       .compute_capability = 90,
                       .multiprocessors = 132,
                       .has_compiler = true,
                       .fusion = &kLibraryRules};

/// A U-Net's graph in f16 as every exact switch leaves it.
Graph optimized(const ComponentClass& unet, const nlohmann::json& config, OptimizeReport& report) {
  const ComponentPass& pass = unet.passes.front();
  const ParamSource params{.dtype = [](std::string_view) { return DType::kF16; }};
  Graph graph = pass.build(config, pass.shapes(config, unet.own_size(config)), params);
  report = optimize(graph, SwitchSet::parse("lossless,fp16"), kH200);
  return graph;
}

int rewrites(const OptimizeReport& report, std::string_view pass) {
  const auto record = std::ranges::find(report.passes, pass, &PassRecord::name);
  return record == report.passes.end() ? 0 : record->rewrites;
}

/// Bodies of fused ops whose name ends so.
int count_bodies(const Graph& graph, std::string_view end) {
  return static_cast<int>(std::ranges::count_if(graph.nodes(), [&](const Node& node) {
    return node.op == Op::kFused && body_of(node.attributes).name().ends_with(end);
  }));
}

int count(const Graph& graph, Op op) { return static_cast<int>(std::ranges::count(graph.nodes(), op, &Node::op)); }

/// Additions and concatenations, each of which would be a pass over memory, by themselves.
void expect_nothing_between(const Graph& graph, const OptimizeReport& report, int skips, int steps, int sums,
                            int shortcuts) {
  const std::vector<bool> is_weight = find_weight_values(graph);
  for (const Node& node : graph.nodes())
    EXPECT_TRUE((node.op != Op::kAdd && node.op != Op::kConcat) || is_weight[index_of(node.results[0])])
        << describe(node);
  EXPECT_EQ(count_bodies(graph, "concat_group_norm"), skips) << "those joined with what comes from below";
  EXPECT_EQ(count_bodies(graph, "add_group_norm"), steps) << "the time, added to each channel";
  EXPECT_EQ(rewrites(report, "fuse-token-epilogue"), sums) << "of transformers and of their feed-forwards";
  EXPECT_EQ(count(graph, Op::kConv2dShortcut), shortcuts) << "around residual blocks whose channels change";
}

/// Every image that is convolved or normed lies with its channels innermost, and every norm has its SiLU.
void expect_images_as_units_read_them(const Graph& graph, int norms_without_silu) {
  int plain_norms = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kConv2d && node.op != Op::kGroupNorm) continue;
    EXPECT_EQ(graph.type(node.results[0]).layout, Layout::kChannelsLast) << node.path;
    if (node.op == Op::kGroupNorm && node.attributes[attr::kEpilogue].is_empty()) ++plain_norms;
  }
  EXPECT_EQ(plain_norms, norms_without_silu);
}

TEST(UNetPasses, FireOnStableDiffusion) {
  OptimizeReport report;
  const Graph graph = optimized(unet2d_condition_class(), sd_turbo_unet_config(), report);
  EXPECT_EQ(rewrites(report, "flash-attention"), 32) << "16 transformers, each of itself and of the text";
  EXPECT_EQ(count(graph, Op::kAttention), 32);
  EXPECT_EQ(rewrites(report, "fuse-qkv"), 32) << "queries, keys and values, and keys and values of the text";
  EXPECT_EQ(count(graph, Op::kConvTranspose2d), 3) << "upsampling";
  EXPECT_EQ(count(graph, Op::kSoftmax) + count(graph, Op::kSilu) + count(graph, Op::kResize2d), 0);
  EXPECT_EQ(rewrites(report, "fuse-conditioning"), 2) << "projections of the time, and keys and values of the text";
  expect_nothing_between(graph, report, 12, 22, 32, 14);  // two shortcuts on the way down, twelve on the way up
  expect_images_as_units_read_them(graph, 16);            // those before transformers
}

TEST(UNetPasses, FireOnAUNetOfPixels) {
  OptimizeReport report;
  const Graph graph = optimized(unet2d_class(), pixel_unet_config(), report);
  EXPECT_EQ(rewrites(report, "flash-attention"), 16);
  EXPECT_EQ(rewrites(report, "fuse-qkv"), 16);
  EXPECT_EQ(count(graph, Op::kConvTranspose2d), 3);
  EXPECT_EQ(count(graph, Op::kSoftmax) + count(graph, Op::kSilu) + count(graph, Op::kResize2d), 0);
  EXPECT_EQ(rewrites(report, "fuse-conditioning"), 1);
  expect_nothing_between(graph, report, 12, 22, 16, 15);
  expect_images_as_units_read_them(graph, 16);
}

constexpr std::int64_t kTextTokens = 77;

/// A denoise loop around SD-Turbo's U-Net: the latents of two images, which each step moves.
Graph denoise_loop() {
  const UNet2DConditionConfig config = parse_unet2d_condition_config(sd_turbo_unet_config());
  constexpr std::int64_t kSteps = 4, kImages = 2, kSide = 32;
  Graph graph("denoise");
  Builder b(graph);
  const ValueId latents = graph.add_state("latents", TensorType{.shape = {kImages, config.in_channels, kSide, kSide}});
  const ValueId times = graph.add_input("timesteps", TensorType{.shape = {kSteps, kImages}});
  const ValueId text = graph.add_input("text", TensorType{.shape = {kImages, kTextTokens, config.cross_attention_dim}});
  {
    const auto loop = b.loop(kSteps, "step");
    const UNet2DConditionInputs inputs{
        .sample = latents, .timestep = b.row(times, loop.counter()), .encoder_hidden_states = text};
    const ParamSource params{.dtype = [](std::string_view) { return DType::kF16; }};
    b.set_next(latents, b.add(latents, build_unet2d_condition(b, config, inputs, params)));
  }
  graph.add_output("latents", latents);
  return graph;
}

TEST(UNetPasses, LiftTheTimeAndThePromptOutOfTheLoop) {
  Graph graph = denoise_loop();
  static_cast<void>(optimize(graph, SwitchSet::parse("lossless,fp16"), kH200));
  int of_tokens = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kLinear || node.region == kTopRegion) continue;
    const Shape& x = graph.type(node.inputs[0]).shape;
    EXPECT_EQ(x.rank(), 3) << node.path << ": the time is one vector a sample";
    EXPECT_NE(x[1], kTextTokens) << node.path << ": keys and values are of the prompt alone";
    ++of_tokens;
  }
  EXPECT_GE(of_tokens, 16 * 6) << "projections of pixels stay";
}

}  // namespace
}  // namespace headroom
