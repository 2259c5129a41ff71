#include "run/export_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/gguf.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

fs::path golden(const std::string& path) { return source_dir(kSourceDir) / "tests/goldens" / path; }

/// What the tiny model's names and shapes do not tell.
OpenOptions options_of_sd15() {
  return {.parts = {{"tokenizer", golden("pipelines/sd-1.5/tokenizer").string()}},
          .config = {{"vae.norm_num_groups", 4},
                     {"text_encoder.num_attention_heads", 2},
                     {"norm_num_groups", 4},
                     {"sample_size", 6},
                     {"attention_head_dim", 2}}};
}

class ExportTest : public testing::Test {
 protected:
  static SingleFile flux() { return SingleFile::open(golden("single_files/flux-dev.safetensors")); }
  static OpenOptions axes() { return {.config = {{"axes_dims_rope", {4, 2, 6}}}}; }
  static Component flux_component() {
    return open_component(golden("single_files/flux-dev.safetensors").string(), axes());
  }
  TempFolder folder_;
};

TEST_F(ExportTest, AFolderHasTheNetworksOfTheFile) {
  const SingleFile file = SingleFile::open(golden("single_files/sd-1.5.safetensors"));
  const fs::path out = folder_ / "sd";
  std::size_t last = 0;
  const ExportedFolder made =
      export_folder(file, options_of_sd15(), out, [&](std::size_t done, std::size_t total) { last = total - done; });
  EXPECT_EQ(last, 0U);
  EXPECT_THAT(made.parts, UnorderedElementsAre("unet", "vae", "text_encoder", "tokenizer", "scheduler"));
  const nlohmann::json index = read_json(out / "model_index.json");
  EXPECT_EQ(index.at("_class_name"), "StableDiffusionPipeline");
  EXPECT_EQ(index.at("unet"), (nlohmann::json{"diffusers", "UNet2DConditionModel"}));
  EXPECT_EQ(index.at("text_encoder"), (nlohmann::json{"transformers", "CLIPTextModel"}));
  EXPECT_EQ(index.at("scheduler"), (nlohmann::json{"diffusers", "PNDMScheduler"}));
  EXPECT_TRUE(fs::exists(out / "tokenizer" / "vocab.json"));
  for (const char* const part : {"unet", "vae", "text_encoder"}) {
    const Component ours = open_component((out / part).string());
    const Component original = open_component((golden("pipelines/sd-1.5") / part).string());
    ASSERT_EQ(ours.checkpoint.tensors().size(), original.checkpoint.tensors().size()) << part;
    for (const TensorSpec& tensor : original.checkpoint.tensors()) {
      EXPECT_TRUE(std::ranges::equal(ours.checkpoint.bytes(tensor.name), original.checkpoint.bytes(tensor.name)))
          << tensor.name;
      EXPECT_EQ(ours.checkpoint.entry(tensor.name).shape, tensor.shape) << tensor.name << ", as diffusers needs it";
    }
  }
  EXPECT_THAT(error_of([&] { export_folder(file, options_of_sd15(), out); }), HasSubstr("exists already"));
}

TEST_F(ExportTest, BlocksBecomeBf16) {
  const SingleFile file = SingleFile::open(golden("single_files/flux-dev.gguf"));
  export_folder(file, axes(), folder_ / "flux");
  const Component ours = open_component((folder_ / "flux" / "transformer").string());
  const Component packed = open_component(golden("single_files/flux-dev.gguf").string(), axes());
  int blocks = 0;
  for (const TensorSpec& tensor : packed.checkpoint.tensors()) {
    const bool is_in_blocks = packed.checkpoint.block_format(tensor.name) != nullptr;
    const HostTensor expected = packed.checkpoint.read(tensor.name);
    const HostTensor read = ours.checkpoint.read(tensor.name);
    EXPECT_EQ(read.dtype(), is_in_blocks ? DType::kBF16 : tensor.dtype) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(read.bytes(), convert(expected, read.dtype()).bytes())) << tensor.name;
    blocks += is_in_blocks ? 1 : 0;
  }
  EXPECT_GT(blocks, 5);
}

TEST_F(ExportTest, GgufKeepsTheNamesOfTheFileAndPacksMatrices) {
  const SingleFile file = flux();
  const fs::path out = folder_ / "flux.gguf";
  const ExportedGguf made = export_gguf(flux_component(), &file, *find_block_format("Q4_K"), out);
  EXPECT_GT(made.packed, 5U);
  EXPECT_THAT(made.lossy, ElementsAre());
  const GgufFile written = GgufFile::open(out);
  EXPECT_EQ(written.header().find_metadata("general.architecture")->text(), "flux");
  EXPECT_EQ(written.header().tensors.size(), made.tensors);
  const SafetensorsFile original = SafetensorsFile::open(golden("single_files/flux-dev.safetensors"));
  for (const auto& [name, entry] : original.entries()) {
    const GgufTensor& tensor = written.tensor(name);
    EXPECT_EQ(tensor.shape, entry.shape) << name;
    const bool is_matrix = entry.shape.rank() == 2;
    const std::string format = !is_matrix                  ? "F32"
                               : entry.shape[1] % 256 == 0 ? "Q4_K"
                               : entry.shape[1] % 32 == 0  ? "Q8_0"
                                                           : std::string(safetensors_name_of(entry.dtype));
    EXPECT_EQ(tensor.format->name, format) << name;
    EXPECT_LE(relative_l2(written.unpack(tensor), original.read(name)), format == "Q4_K" ? 0.1 : 0.01) << name;
  }
  EXPECT_EQ(open_component(out.string(), axes()).checkpoint.tensors().size(),
            flux_component().checkpoint.tensors().size());
}

/// The names and architecture of ComfyUI-GGUF. Pad tokens, of one row, are vectors.
TEST_F(ExportTest, GgufOfZImageHasTheNumbersOfItsBlocks) {
  const std::string path = golden("single_files/z-image.safetensors").string();
  const OpenOptions axes{.config = {{"axes_dims", {4, 4, 4}}}};
  const SingleFile file = SingleFile::open(path);
  const Component original = open_component(path, axes);
  const fs::path out = folder_ / "z-image.gguf";
  const ExportedGguf made = export_gguf(original, &file, *find_block_format("Q8_0"), out);
  EXPECT_GT(made.packed, 5U);
  const GgufFile written = GgufFile::open(out);
  EXPECT_EQ(written.header().find_metadata("general.architecture")->text(), "lumina2");
  EXPECT_EQ(written.tensor("x_pad_token").format->name, "F32");
  const Component read = open_component(out.string(), axes);
  ASSERT_EQ(read.checkpoint.tensors().size(), original.checkpoint.tensors().size());
  for (const TensorSpec& tensor : original.checkpoint.tensors()) {
    const bool is_packed = read.checkpoint.block_format(tensor.name) != nullptr;
    EXPECT_LE(relative_l2(read.checkpoint.read(tensor.name), original.checkpoint.read(tensor.name)),
              is_packed ? 0.01 : 0.0)
        << tensor.name;
  }
}

TEST_F(ExportTest, AFolderOfZImageHasTheNetworksOfTheFile) {
  const fs::path pipeline = golden("pipelines/z-image");
  const SingleFile file = SingleFile::open(golden("single_files/z-image.safetensors"));
  const OpenOptions options{.parts = {{"tokenizer", (pipeline / "tokenizer").string()}},
                            .config = {{"axes_dims", {4, 4, 4}}}};
  const fs::path out = folder_ / "z-image";
  EXPECT_THAT(export_folder(file, options, out).parts, UnorderedElementsAre("transformer", "tokenizer", "scheduler"));
  const nlohmann::json index = read_json(out / "model_index.json");
  EXPECT_EQ(index.at("_class_name"), "ZImagePipeline");
  EXPECT_EQ(index.at("tokenizer"), (nlohmann::json{"transformers", "Qwen2Tokenizer"}));
  const Component ours = open_component((out / "transformer").string());
  const Component original = open_component((pipeline / "transformer").string());
  ASSERT_EQ(ours.checkpoint.tensors().size(), original.checkpoint.tensors().size());
  for (const TensorSpec& tensor : original.checkpoint.tensors())
    EXPECT_TRUE(std::ranges::equal(ours.checkpoint.bytes(tensor.name), original.checkpoint.bytes(tensor.name)))
        << tensor.name;
  for (const auto& [key, value] : original.config.items())
    if (!value.is_null() && ours.config.contains(key) && !key.starts_with("_")) {
      EXPECT_EQ(ours.config.at(key), value) << key;
    }
}

TEST_F(ExportTest, GgufOfAFolderOfAUNetHasTheNamesOfItsAuthors) {
  const Component unet = open_component(golden("pipelines/sd-1.5").string());  // the denoiser of the pipeline
  const fs::path out = folder_ / "unet.gguf";
  static_cast<void>(export_gguf(unet, nullptr, *find_block_format("Q8_0"), out));
  static_cast<void>(
      GgufFile::open(out).tensor("input_blocks.1.1.transformer_blocks.0.attn1.to_k.weight"));  // 65 bytes in diffusers
  const Component read =
      open_component(out.string(), {.config = {{"norm_num_groups", 4}, {"sample_size", 6}, {"attention_head_dim", 2}}});
  ASSERT_EQ(read.checkpoint.tensors().size(), unet.checkpoint.tensors().size());
  for (const TensorSpec& tensor : unet.checkpoint.tensors())
    EXPECT_LE(relative_l2(read.checkpoint.read(tensor.name), unet.checkpoint.read(tensor.name)), 0.01) << tensor.name;
}

TEST_F(ExportTest, GgufOfATransformersFolderSaysWhatItNeedsToBeOpened) {
  const Component transformer = open_component(golden("pipelines/flux-dev/transformer").string());
  const fs::path out = folder_ / "transformer.gguf";
  static_cast<void>(export_gguf(transformer, nullptr, *find_block_format("Q8_0"), out));
  const std::string error =
      error_of([&] { static_cast<void>(SingleFile::open(out).network_for("transformer", "FluxPipeline")); });
  EXPECT_THAT(error,
              HasSubstr("holds no transformer of a FluxPipeline that can be opened from a file alone; it holds "));
  EXPECT_THAT(error, HasSubstr("(diffusers names): put it into a folder with the network's config.json"));
}

TEST_F(ExportTest, ValuesOfAFileOfOneNetworkMayNameItsPart) {
  const std::string file = golden("single_files/flux-dev.safetensors").string();
  EXPECT_EQ(open_component(file, {.config = {{"transformer.axes_dims_rope", {4, 2, 6}}}}).config.at("axes_dims_rope"),
            (nlohmann::json{4, 2, 6}));
  const std::string error = error_of([&] {
    static_cast<void>(open_component(file, {.config = {{"axes_dims_rope", {4, 2, 6}}, {"vae.scaling", 1}}}));
  });
  EXPECT_THAT(error, HasSubstr("--config vae.scaling: FluxTransformer2DModel has no such value"));
}

TEST_F(ExportTest, GgufNamesTensorsWithNumbersBelowTheirScales) {
  const Component component = open_component(golden("pipelines/flux-dev/transformer").string());
  std::map<std::string, HostTensor> tensors;
  for (const TensorSpec& tensor : component.checkpoint.tensors())
    tensors.emplace(tensor.name, component.checkpoint.read(tensor.name));
  const std::string tiny = "transformer_blocks.0.ff.net.2.weight";
  HostTensor& values = tensors.at(tiny);
  for (std::int64_t i = 0; i < values.numel(); ++i) values.set(i, i % 2 == 0 ? 1e-9 : 0);
  write_json(folder_ / "config.json", component.config);
  write_safetensors(folder_ / "diffusion_pytorch_model.safetensors", tensors);
  const Component changed = open_component(folder_.path().string());
  const Shape shape = values.shape();
  ASSERT_EQ(shape[1] % 32, 0) << "it is packed";
  const ExportedGguf made = export_gguf(changed, nullptr, *find_block_format("Q8_0"), folder_ / "a.gguf");
  EXPECT_THAT(made.lossy, ElementsAre(tiny));
}

TEST_F(ExportTest, GgufRefusesNetworksWithoutAnArchitecture) {
  const Component vae = open_component(golden("pipelines/sd-1.5/vae").string());
  EXPECT_THAT(error_of([&] { export_gguf(vae, nullptr, *find_block_format("Q8_0"), folder_ / "a.gguf"); }),
              HasSubstr("for which GGUF files have no architecture"));
}

}  // namespace
}  // namespace headroom
