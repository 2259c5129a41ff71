#include "run/component.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "run/compile.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ComponentFolder : public testing::Test {
 protected:
  /// The error for a text encoder of so many layers whose weights are one tensor.
  std::string refusal(int layers) {
    write_json(folder_ / "config.json", {{"architectures", {"CLIPTextModel"}},
                                         {"vocab_size", 8},
                                         {"hidden_size", 8},
                                         {"intermediate_size", 8},
                                         {"num_hidden_layers", layers},
                                         {"num_attention_heads", 1},
                                         {"max_position_embeddings", 4}});
    write_safetensors(folder_ / "model.safetensors",
                      {{"text_model.embeddings.token_embedding.weight", random_f32({8, 8}, 1)}});
    return error_of([&] { static_cast<void>(open_component(folder_.path().string())); });
  }

  TempFolder folder_;
};

TEST_F(ComponentFolder, WithoutAFewTensorsIsRefusedByTheirNumber) {
  EXPECT_THAT(refusal(2), AllOf(HasSubstr(" lacks 35 tensors that the model needs: "), HasSubstr(" and 30 more")));
}

TEST_F(ComponentFolder, OfFarMoreLayersThanItsWeightsIsRefusedWhileItsGraphIsBuilt) {
  EXPECT_THAT(refusal(4000), AllOf(StartsWith(folder_.path().string() + ": config.json: "),
                                   HasSubstr("needs more than 1000 tensors that the weights lack, text_model.e")));
}

TEST_F(ComponentFolder, HasVariantsAndAFileHasNone) {
  const std::filesystem::path clip = std::filesystem::path(kSourceDir) / "tests/goldens/gguf/clip";
  const std::filesystem::path file = folder_ / "a.safetensors";
  std::filesystem::copy_file(clip / "model.safetensors", file);
  const auto refusal_of = [](const std::filesystem::path& path, const OpenOptions& options) {
    return error_of([&] { static_cast<void>(open_component(path.string(), options)); });
  };
  EXPECT_EQ(refusal_of(file, {.variant = "fp16"}),
            "--variant fp16: there are none in " + file.string() +
                ": they are files of a folder, such as diffusion_pytorch_model.fp16.safetensors");
  EXPECT_THAT(refusal_of(clip, {.random_seed = 1, .variant = "fp16"}),
              StartsWith("--variant fp16: there are none in random weights: "));
  EXPECT_THAT(refusal_of(clip, {.variant = "fp16"}), HasSubstr("has no weights of the variant fp16"));
}

/// The outputs of a pass of the network in a folder of tests/goldens.
std::vector<HostTensor> outputs_of(const std::string& folder, std::string_view switches,
                                   const ParamUpdates& updates = {}) {
  const Component component = open_component(std::string(kSourceDir) + "/tests/goldens/" + folder);
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const ComponentPass& pass = component.kind->passes.front();
  const Graph graph = component.build(pass, {{"input_ids", Shape{1, 12}}});
  const Compiled compiled = compile(graph, SwitchSet::parse(switches), backend->properties().target);
  WeightStore weights(*backend, component.checkpoint);
  static_cast<void>(weights.update_params(updates));
  Session session(compiled.program, weights, *backend);
  HostTensor ids(DType::kI32, {1, 12});
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.set(i, static_cast<double>(i == 11 ? 47 : 3 * i));
  session.set_input("input_ids", ids);
  session.run();
  std::vector<HostTensor> outputs;
  for (const Output& output : compiled.program->graph.outputs()) outputs.push_back(session.output(output.name));
  return outputs;
}

// The golden has the values that gguf 0.19 reads from the same blocks.
TEST(ComponentOfGguf, ComputesTheSameAsFromSafetensors) {
  for (const char* switches : {"baseline", "fast"}) {
    const std::vector<HostTensor> packed = outputs_of("gguf/clip-packed", switches);
    const std::vector<HostTensor> plain = outputs_of("gguf/clip", switches);
    ASSERT_EQ(packed.size(), plain.size());
    ASSERT_FALSE(plain.empty());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(relative_l2(packed[i], plain[i]), 0.0);
      EXPECT_GT(relative_l2(plain[i], HostTensor(plain[i].dtype(), plain[i].shape())), 0.0) << "not zeros";
    }
  }
}

// Blocks stay in memory, and each weight is unpacked before its matmul.
TEST(ComponentOfGguf, ComputesTheSameWithPackedWeights) {
  for (const auto& [switches, tolerance] : {std::pair("arena", 1e-6), {"arena,bf16", 1e-2}, {"fast", 1e-2}}) {
    const std::vector<HostTensor> packed = outputs_of("gguf/clip-packed", std::string(switches) + ",packed");
    const std::vector<HostTensor> folded = outputs_of("gguf/clip-packed", switches);
    for (std::size_t i = 0; i < folded.size(); ++i) EXPECT_LE(relative_l2(packed[i], folded[i]), tolerance) << switches;
  }
}

// Two factors are added to a matrix in blocks as to the same matrix in f32.
TEST(ComponentOfGguf, TakesUpdatesWhereBlocksAreUnpacked) {
  const HostTensor up = random_f32({256, 2}, 1), down = random_f32({2, 32}, 2);
  ParamUpdate update;
  update.terms.push_back({.factors = {.up = {up.dtype(), up.shape(), up.bytes()},
                                      .down = HostView{down.dtype(), down.shape(), down.bytes()}},
                          .scale = 0.05});
  const ParamUpdates updates = {{"text_model.encoder.layers.0.mlp.fc1.weight", update}};
  const std::vector<HostTensor> packed = outputs_of("gguf/clip-packed", "arena,bf16", updates);
  const std::vector<HostTensor> plain = outputs_of("gguf/clip", "arena,bf16", updates);
  const std::vector<HostTensor> without = outputs_of("gguf/clip", "arena,bf16");
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(relative_l2(packed[i], plain[i]), 0.0);
    EXPECT_GT(relative_l2(plain[i], without[i]), 0.001);
  }
  EXPECT_THAT(error_of([&] { static_cast<void>(outputs_of("gguf/clip-packed", "arena,packed", updates)); }),
              HasSubstr("nothing can be added to weights that stay packed"));
}

TEST(RandomComponent, HoldsItsMatricesInBlocks) {
  const OpenOptions options{.random_seed = 1, .random_format = find_block_format("Q8_0")};
  const std::string folder = std::string(kSourceDir) + "/tests/goldens/gguf/clip";
  const Component component = open_component(folder, options);
  const std::string matrix = "text_model.encoder.layers.0.mlp.fc1.weight";
  EXPECT_EQ(component.checkpoint.block_format(matrix)->name, "Q8_0");
  EXPECT_EQ(component.checkpoint.block_format("text_model.encoder.layers.0.mlp.fc1.bias"), nullptr);
  const std::span<const std::byte> blocks = component.checkpoint.blocks(matrix);
  const HostTensor values = component.checkpoint.read(matrix);
  EXPECT_EQ(std::ssize(blocks), values.numel() / 32 * 34);
  std::vector<float> unpacked(static_cast<std::size_t>(values.numel()));
  unpack_blocks(*find_block_format("Q8_0"), blocks, unpacked);
  EXPECT_TRUE(std::ranges::equal(unpacked, values.as<float>()));
}

TEST_F(ComponentFolder, OfAGgufFileWithOtherNamesIsRefused) {
  const std::filesystem::path goldens = std::filesystem::path(kSourceDir) / "tests/goldens/gguf";
  std::filesystem::copy_file(goldens / "clip/config.json", folder_ / "config.json");
  std::filesystem::copy_file(goldens / "blocks.gguf", folder_ / "a.gguf");
  EXPECT_THAT(error_of([&] { static_cast<void>(open_component(folder_.path().string())); }),
              AllOf(HasSubstr(" lacks 20 tensors that the model needs: "), HasSubstr("that the model does not know")));
  EXPECT_THAT(error_of([&] { static_cast<void>(open_component((folder_ / "a.gguf").string())); }),
              HasSubstr("a.gguf holds no network that can be opened from a file alone; it holds not recognized"));
}

}  // namespace
}  // namespace headroom
