#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "passes/pass.hpp"
#include "pipelines/generator.hpp"
#include "plan/weight_key.hpp"
#include "run/memory_need.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

/// Parameters: switches, and whether a store holds the weights already.
class MemoryNeedTest : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static std::size_t used(const Backend& backend, MemoryCategory category) {
    return backend.memory_use().used[static_cast<std::size_t>(category)];
  }

  LimitedBackend backend_{std::numeric_limits<std::size_t>::max()};
  std::unique_ptr<Pipeline> pipeline_ =
      open_pipeline((source_dir(kSourceDir) / "models/fashion-flux/transformer").string());
};

/// The need computed before allocation equals the memory that a session then holds, and its peak.
TEST_P(MemoryNeedTest, IsWhatASessionAllocates) {
  const RequestOptions options{.images = 3,
                               .token_rows = 16,
                               .token_columns = 16,
                               .text_tokens = 16,
                               .steps = 3,
                               .switches = SwitchSet::parse(GetParam())};
  const Request request = pipeline_->resolve(options);
  const Compiled compiled = compile_denoise(*pipeline_, request, options.switches, backend_.properties().target);
  WeightStore weights(backend_, pipeline_->components());
  const MemoryNeed need = memory_need(*compiled.program, weights);
  EXPECT_EQ(backend_.memory_use().total, 0U);

  backend_.reset_peak();
  Generator generator(*pipeline_, backend_, weights, options);
  const std::size_t loading_peak = backend_.memory_use().peak;
  (void)generator.generate(make_image_requests(*pipeline_, 0, 3, 0));
  EXPECT_EQ(need.weights, used(backend_, MemoryCategory::kWeights));
  EXPECT_EQ(need.state, used(backend_, MemoryCategory::kState));
  EXPECT_EQ(need.inputs, used(backend_, MemoryCategory::kInputs));
  EXPECT_EQ(need.activations, used(backend_, MemoryCategory::kActivations));
  std::size_t activations = 0;
  for (const DeviceStage* const stage : generator.device_stages())
    activations += stage->session->activation_reserved_bytes();
  EXPECT_EQ(need.activations, activations);
  EXPECT_EQ(need.held, 0U);
  // Weights are folded in aligned memory; the alignment adds little.
  constexpr std::size_t kSlack = 64 << 10;
  EXPECT_LE(loading_peak, need.total() + kSlack);
  EXPECT_LE(backend_.memory_use().peak, need.total() + kSlack);
  EXPECT_GE(backend_.memory_use().peak + kSlack, need.total()) << "more is asked for than is needed";

  const MemoryNeed again = memory_need(*compiled.program, weights);
  EXPECT_EQ(again.held, need.weights);
  EXPECT_EQ(again.loading, 0U);
}

INSTANTIATE_TEST_SUITE_P(Switches, MemoryNeedTest,
                         testing::Values("", "hoist", "bf16", "int8", "arena", "arena,fuse,bf16", "lossless", "fast"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, ',', '_');
                           return name.empty() ? "baseline" : name;
                         });

/// The keys of the weights that a GPU's denoise loop reads.
std::set<std::string> weight_keys(const Pipeline& pipeline, const RequestOptions& options) {
  Graph graph = pipeline.build_denoise(pipeline.resolve(options));
  static_cast<void>(optimize(graph, options.switches, {.device = DeviceKind::kCuda, .compute_capability = 90}));
  const std::vector<bool> is_weight = find_weight_values(graph);
  const std::vector<int> producers = find_producers(graph);
  std::set<std::string> keys;
  for (const Node& node : graph.nodes())
    for (const ValueId input : node.inputs)
      if (is_weight[index_of(input)] && !is_weight[index_of(node.results[0])])
        keys.insert(weight_key(graph, producers, input));
  return keys;
}

/// Merged matmuls of modulations are a third of Qwen-Image's weights: they are the same ones for guided requests, whose
/// texts have two lengths, and for others.
TEST(MemoryNeed, IsOneSetOfWeightsForGuidedAndUnguidedRequests) {
  const std::unique_ptr<Pipeline> pipeline =
      open_pipeline((source_dir(kSourceDir) / "tests/goldens/pipelines/qwen-image").string());
  RequestOptions options{
      .token_rows = 2, .token_columns = 3, .steps = 2, .switches = SwitchSet::parse("lossless,bf16")};
  options.text_lengths = {9};
  const std::set<std::string> unguided = weight_keys(*pipeline, options);
  options.has_negative_prompt = true;
  options.text_lengths = {4, 9};
  EXPECT_EQ(weight_keys(*pipeline, options), unguided);
  const auto is_merged = [](const std::string& key) {
    return key.find("img_mod.1.weight") != std::string::npos && key.find("txt_mod.1.weight") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(unguided, is_merged)) << "the case is about merged matmuls";
}

TEST(MemoryNeed, CountsWhatTheStoreHoldsAsThere) {
  LimitedBackend backend(1000);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline("flux-128x1+1", {.random_seed = 0});
  WeightStore weights(backend, pipeline->components());
  EXPECT_EQ(memory_for(backend, weights), 1000U);
  backend.set_limit(std::size_t{1} << 30);
  const Compiled compiled = compile(pipeline->forward_pass({.token_rows = 2, .token_columns = 2, .text_tokens = 4}), {},
                                    backend.properties().target);
  weights.load(*compiled.program);
  EXPECT_GT(weights.bytes(), 0U);
  EXPECT_EQ(memory_for(backend, weights), std::size_t{1} << 30)
      << "the memory of the session is subtracted from the available memory";
}

}  // namespace
}  // namespace headroom
