// Models in one file under their authors' names (tests/goldens/make_single_files.py), against the folders with the same
// weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/gguf.hpp"
#include "io/safetensors.hpp"
#include "ir/text/text.hpp"
#include "pipelines/generator.hpp"
#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline.hpp"
#include "run/single_file.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

fs::path golden(const std::string& path) { return source_dir(kSourceDir) / "tests/goldens" / path; }
fs::path pipeline_folder(const std::string& name) { return golden("pipelines/" + name); }
fs::path single_file(const std::string& name) { return golden("single_files/" + name); }

/// What a tiny model has otherwise than the published ones, whose values the files do not tell either.
OpenOptions tiny_options(const std::string& name) {
  OpenOptions options{.config = {{"vae.norm_num_groups", 4}}};
  const auto set = [&](const char* key, const json& value) { options.config[key] = value; };
  const auto add_part = [&](const char* part) { options.parts.emplace(part, (pipeline_folder(name) / part).string()); };
  add_part("tokenizer");
  set("text_encoder.num_attention_heads", name == "sd-2.1" ? 3 : 2);
  if (name.starts_with("flux")) {
    set("axes_dims_rope", {4, 2, 6});
    add_part("tokenizer_2");
    return options;
  }
  set("norm_num_groups", 4);
  set("sample_size", name == "sd-1.5" ? 6 : 8);
  set("attention_head_dim", name == "sd-1.5" ? json(2) : name == "sdxl" ? json({1, 2, 4}) : json({2, 4}));
  if (name == "sd-2.1") set("scheduler.prediction_type", "v_prediction");
  if (name == "sdxl") {
    set("addition_time_embed_dim", 8);
    set("text_encoder_2.num_attention_heads", 2);
    add_part("tokenizer_2");
  }
  return options;
}

/// All that changes outputs: the graphs of all passes.
void expect_equal_configs(const Component& ours, const Component& folder) {
  ASSERT_EQ(ours.kind, folder.kind);
  const PassSize size{.batch = 1, .height = 128, .width = 128, .text_tokens = 3};
  for (const ComponentPass& pass : folder.kind->passes) {
    const auto graph_of = [&](json config) {
      // The last id of a tiny vocabulary is the highest one, as 2 is in the folders of CLIP.
      if (config.contains("eos_token_id") && config.at("eos_token_id") == config.at("vocab_size").get<int>() - 1)
        config["eos_token_id"] = 2;
      return canonical_text(pass.build(config, pass.shapes(config, size), folder.params()));
    };
    EXPECT_TRUE(graph_of(ours.config) == graph_of(folder.config))
        << folder.kind->name << " " << pass.name << ": " << ours.config.dump() << " and " << folder.config.dump();
  }
}

/// Every tensor of a folder's network, to the bit, and what its config.json says.
void expect_equal_weights(const Component& ours, const Component& folder) {
  expect_equal_configs(ours, folder);
  EXPECT_FALSE(ours.checkpoint.is_random());
  std::vector<std::string> names, expected;
  for (const TensorSpec& tensor : ours.checkpoint.tensors()) names.push_back(tensor.name);
  for (const TensorSpec& tensor : folder.checkpoint.tensors()) expected.push_back(tensor.name);
  EXPECT_EQ(names, expected) << ours.part;
  for (const std::string& name : names) {
    const HostTensor read = ours.checkpoint.read(name), original = folder.checkpoint.read(name);
    EXPECT_EQ(read.dtype(), original.dtype()) << name;
    EXPECT_TRUE(std::ranges::equal(read.bytes(), original.bytes())) << name;
    EXPECT_TRUE(std::ranges::equal(ours.checkpoint.bytes(name), original.bytes())) << name;
    ours.checkpoint.release(name);
  }
}

RequestOptions two_steps(const Pipeline& pipeline) {
  const std::int64_t side = 32 / pipeline.token_pixels();
  return {.images = 1, .token_rows = side, .token_columns = side, .steps = 2, .switches = {}};
}

/// The latents and pixels of a request.
std::vector<HostTensor> outputs_of(const Pipeline& pipeline) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  WeightStore weights(*backend, pipeline.components());
  Generator generator(pipeline, *backend, weights, two_steps(pipeline));
  const ImageRequest image{.seed = 3, .prompt = "a red fox"};
  HostTensor latents = generator.generate(std::span(&image, 1));
  HostTensor pixels = generator.decode(latents);
  return {std::move(latents), std::move(pixels)};
}

/// The latents that a denoiser alone makes of random texts.
HostTensor latents_of(const Pipeline& pipeline) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  WeightStore weights(*backend, pipeline.components());
  Generator generator(pipeline, *backend, weights, two_steps(pipeline));
  const ImageRequest image{.seed = 3};
  return generator.generate(std::span(&image, 1));
}

void expect_equal_outputs(const Pipeline& ours, const Pipeline& folder) {
  const std::vector<HostTensor> made = outputs_of(ours), expected = outputs_of(folder);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(made[i].bytes(), expected[i].bytes()));
    EXPECT_GT(relative_l2(expected[i], HostTensor(expected[i].dtype(), expected[i].shape())), 0.0) << "not zeros";
  }
}

void expect_equal_pipelines(const std::string& path, const std::string& name) {
  const std::unique_ptr<Pipeline> ours = open_pipeline(path, tiny_options(name));
  const std::unique_ptr<Pipeline> folder = open_pipeline(pipeline_folder(name).string());
  ASSERT_EQ(ours->components().size(), folder->components().size());
  for (const Component& component : folder->components())
    expect_equal_weights(ours->component(component.part), component);
  expect_equal_outputs(*ours, *folder);
}

class StableDiffusionFile : public testing::TestWithParam<const char*> {};

TEST_P(StableDiffusionFile, ComputesTheSameAsTheFolder) {
  const std::string name = GetParam();
  expect_equal_pipelines(single_file(name + ".safetensors").string(), name);
}

INSTANTIATE_TEST_SUITE_P(All, StableDiffusionFile, testing::Values("sd-1.5", "sd-2.1", "sdxl"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

using Tensors = std::map<std::string, HostTensor>;

Tensors tensors_in(const fs::path& path, const std::string& prefix = {}) {
  Tensors tensors;
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const auto& [name, entry] : file.entries()) tensors.emplace(prefix + name, file.read(name));
  return tensors;
}

class SingleFileTest : public testing::Test {
 protected:
  static OpenOptions axes() { return {.config = {{"axes_dims_rope", {4, 2, 6}}}}; }
  static Component original() { return open_component((pipeline_folder("flux-dev") / "transformer").string()); }
  [[nodiscard]] std::string write(const Tensors& tensors, const char* name = "a.safetensors") const {
    write_safetensors(folder_ / name, tensors);
    return (folder_ / name).string();
  }
  TempFolder folder_;
};

TEST_F(SingleFileTest, OfFluxComputesTheSameAsTheFolderUnderEachPrefix) {
  for (const std::string name : {"flux-dev", "flux-schnell"}) {
    const std::unique_ptr<Pipeline> folder = open_pipeline(pipeline_folder(name).string());
    OpenOptions options{.config = {{"axes_dims_rope", folder->denoiser().config.at("axes_dims_rope")}}};
    for (const char* const part : {"text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2", "vae"})
      options.parts.emplace(part, (pipeline_folder(name) / part).string());
    for (const char* const prefix : {"", "model.diffusion_model.", "diffusion_model."}) {
      SCOPED_TRACE(prefix + name);
      const std::string file = write(tensors_in(single_file(name + ".safetensors"), prefix));
      const std::unique_ptr<Pipeline> pipeline = open_pipeline(file, options);
      const Component& ours = pipeline->denoiser();
      EXPECT_EQ(ours.name, "a");
      expect_equal_weights(ours, folder->denoiser());
      expect_equal_outputs(*pipeline, *folder);
      // Rows of a joint matrix are views of the file.
      const std::string block = "transformer_blocks.0.attn.";
      const auto q = ours.checkpoint.bytes(block + "to_q.weight"), k = ours.checkpoint.bytes(block + "to_k.weight");
      EXPECT_EQ(q.data() + q.size(), k.data());
    }
  }
}

TEST_F(SingleFileTest, WithAllNetworksComputesTheSameAsTheFolder) {
  Tensors whole = tensors_in(single_file("flux-dev.safetensors"), "model.diffusion_model.");
  whole.merge(tensors_in(single_file("ae.safetensors"), "vae."));
  const fs::path folder = pipeline_folder("flux-dev");
  whole.merge(tensors_in(folder / "text_encoder/model.safetensors", "text_encoders.clip_l.transformer."));
  const Checkpoint t5 = Checkpoint::open(folder / "text_encoder_2");
  for (const TensorSpec& tensor : t5.tensors())
    whole.emplace("text_encoders.t5xxl.transformer." + tensor.name, t5.read(tensor.name));
  expect_equal_pipelines(write(whole), "flux-dev");
}

TEST_F(SingleFileTest, OfATransformerIsCompletedByParts) {
  const std::string file = single_file("flux-dev.safetensors").string();
  EXPECT_FALSE(is_pipeline(file));
  EXPECT_THAT(
      error_of([&] { require_whole_pipeline(file, axes()); }),
      AllOf(HasSubstr(" lacks 5 parts of a FluxPipeline: text_encoder (CLIPTextModel, --part text_encoder=PATH)"),
            HasSubstr("text_encoder_2 (T5EncoderModel"), HasSubstr("vae (AutoencoderKL or")));
  OpenOptions options = tiny_options("flux-dev");
  options.config.erase("text_encoder.num_attention_heads");
  for (const char* const part : {"text_encoder", "text_encoder_2"})
    options.parts.emplace(part, (pipeline_folder("flux-dev") / part).string());
  options.parts.emplace("vae", single_file("ae.safetensors").string());
  const std::unique_ptr<Pipeline> ours = open_pipeline(file, options);
  const std::unique_ptr<Pipeline> folder = open_pipeline(pipeline_folder("flux-dev").string());
  EXPECT_EQ(ours->component("vae").config.at("shift_factor"), 0.1159) << "of the family";
  expect_equal_weights(ours->component("vae"), folder->component("vae"));
  expect_equal_outputs(*ours, *folder);
}

/// Every tensor that a network reads is that of the folder, to the bit.
void expect_weights_of(const Component& ours, const fs::path& folder) {
  const Component original = open_component(folder.string());
  EXPECT_EQ(ours.kind, original.kind);
  EXPECT_GT(ours.checkpoint.tensors().size(), 20U);
  for (const TensorSpec& tensor : ours.checkpoint.tensors())
    EXPECT_TRUE(std::ranges::equal(ours.checkpoint.bytes(tensor.name), original.checkpoint.read(tensor.name).bytes()))
        << tensor.name;
}

/// llama.cpp's names, by its own table.
TEST_F(SingleFileTest, OfATextEncoderInLlamasNamesHasItsWeights) {
  const Component t5 = open_single_file(single_file("t5.gguf"), "text_encoder_2", {}, "FluxPipeline");
  expect_weights_of(t5, pipeline_folder("flux-dev") / "text_encoder_2");
  const json original = read_json(pipeline_folder("flux-dev") / "text_encoder_2/config.json");
  for (const char* const key : {"vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads", "feed_forward_proj",
                                "relative_attention_num_buckets"})
    EXPECT_EQ(t5.config.at(key), original.at(key)) << key;
  const std::string qwen = single_file("qwen2.5-vl.gguf").string();
  EXPECT_THAT(error_of([&] { static_cast<void>(open_single_file(qwen, "text_encoder", {}, "QwenImagePipeline")); }),
              HasSubstr("do not tell num_attention_heads"));
  const Component qwen3 = open_single_file(single_file("qwen3.gguf"), "text_encoder", {}, "ZImagePipeline");
  expect_weights_of(qwen3, pipeline_folder("z-image") / "text_encoder");
  expect_equal_configs(qwen3, open_component((pipeline_folder("z-image") / "text_encoder").string()));
  const OpenOptions heads{.config = {{"num_attention_heads", 4}, {"num_key_value_heads", 2}}};
  expect_weights_of(open_single_file(qwen, "text_encoder", heads, "QwenImagePipeline"),
                    pipeline_folder("qwen-image") / "text_encoder");
}

/// Transformers in their authors' names, completed by the parts of a folder.
TEST_F(SingleFileTest, OfATransformerAloneComputesTheSameAsTheFolder) {
  const auto part = [](const std::string& folder, const char* role) {
    return std::pair<const std::string, std::string>(role, (pipeline_folder(folder) / role).string());
  };
  const struct {
    const char *file, *folder, *others, *class_name;
    std::pair<std::string, json> axes;
  } models[] = {
      {"flux2-klein.safetensors", "flux2-klein", "flux2-klein", "Flux2KleinPipeline", {"axes_dims_rope", {2, 4, 4, 2}}},
      {"flux3.safetensors",
       "flux3-distilled",
       "flux3-base",
       "Flux3DistilledModularPipeline",
       {"axes_dims_rope", {2, 4, 4, 2}}},
      {"z-image.safetensors", "z-image", "z-image", "ZImagePipeline", {"axes_dims", {4, 4, 4}}}};
  for (const auto& [name, folder, others, class_name, axes] : models) {
    OpenOptions given;
    for (const char* const role : {"text_encoder", "tokenizer", "vae"}) given.parts.insert(part(others, role));
    OpenOptions options = given;
    options.config = {axes};
    const std::unique_ptr<Pipeline> original =
        open_pipeline(pipeline_folder(folder).string(), std::string(folder) == others ? OpenOptions() : given);
    for (const char* const prefix : {"", "model.diffusion_model."}) {
      SCOPED_TRACE(fmt::format("{}{}", prefix, name));
      const std::string file = write(tensors_in(single_file(name), prefix));
      const std::unique_ptr<Pipeline> ours = open_pipeline(file, options);
      expect_equal_weights(ours->denoiser(), original->denoiser());
      expect_equal_outputs(*ours, *original);
      EXPECT_THAT(error_of([&] { require_whole_pipeline(file, {.config = options.config}); }),
                  HasSubstr(std::string("lacks 3 parts of a ") + class_name));
    }
    const SingleFile opened = SingleFile::open(single_file(name));
    const json inferred = opened.infer(opened.networks().front(), options).values;
    for (const auto& [key, value] : inferred.items())
      if (const json& own = original->denoiser().config; own.contains(key) && !own.at(key).is_null()) {
        EXPECT_EQ(value, own.at(key)) << key;
      }
  }
}

/// ComfyUI's checkpoints hold all networks, without the tokenizer.
TEST_F(SingleFileTest, OfZImageWithAllNetworksComputesTheSameAsTheFolder) {
  const fs::path folder = pipeline_folder("z-image");
  Tensors whole = tensors_in(single_file("z-image.safetensors"), "model.diffusion_model.");
  whole.merge(tensors_in(single_file("z-image-ae.safetensors"), "vae."));
  whole.merge(tensors_in(folder / "text_encoder/model.safetensors", "text_encoders.qwen3_4b.transformer."));
  const OpenOptions options{.parts = {{"tokenizer", (folder / "tokenizer").string()}},
                            .config = {{"axes_dims", {4, 4, 4}}, {"vae.norm_num_groups", 4}}};
  const std::unique_ptr<Pipeline> ours = open_pipeline(write(whole), options);
  const std::unique_ptr<Pipeline> original = open_pipeline(folder.string());
  for (const Component& component : original->components())
    expect_equal_weights(ours->component(component.part), component);
  expect_equal_outputs(*ours, *original);
  EXPECT_EQ(ours->component("vae").config.at("shift_factor"), 0.1159) << "of the family";
}

/// The only weights of a folder are of a variant.
TEST_F(SingleFileTest, VariantsComputeTheSameAsTheFolder) {
  for (const char* const name : {"sd-1.5", "sdxl"}) {
    const fs::path copy = folder_ / name;
    fs::copy(pipeline_folder(name), copy, fs::copy_options::recursive);
    std::vector<fs::path> weights;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(copy))
      if (entry.path().extension() == ".safetensors" && entry.path().parent_path() != copy)
        weights.push_back(entry.path());
    EXPECT_GE(weights.size(), 3U);
    for (const fs::path& path : weights) fs::rename(path, fs::path(path).replace_extension("fp16.safetensors"));
    for (const char* const variant : {"", "fp16"}) {
      const std::unique_ptr<Pipeline> ours = open_pipeline(copy.string(), {.variant = variant});
      const std::unique_ptr<Pipeline> original = open_pipeline(pipeline_folder(name).string());
      for (const Component& component : original->components())
        expect_equal_weights(ours->component(component.part), component);
      expect_equal_outputs(*ours, *original);
    }
  }
}

/// A folder whose text encoder and tokenizer another has.
TEST_F(SingleFileTest, AFolderWithoutPartsComputesTheSameWithThoseOfAnother) {
  const fs::path whole = pipeline_folder("sd-1.5"), copy = folder_ / "without";
  fs::copy(whole, copy, fs::copy_options::recursive);
  OpenOptions options;
  for (const char* const part : {"text_encoder", "tokenizer"}) {
    fs::remove_all(copy / part);
    options.parts.emplace(part, (whole / part).string());
  }
  EXPECT_THAT(error_of([&] { require_whole_pipeline(copy.string(), {}); }),
              AllOf(HasSubstr("lacks 2 parts of a StableDiffusionPipeline"), HasSubstr("--part text_encoder=PATH")));
  const std::unique_ptr<Pipeline> ours = open_pipeline(copy.string(), options);
  expect_equal_outputs(*ours, *open_pipeline(whole.string()));
}

TEST_F(SingleFileTest, OfQwenImageComputesTheSameAsTheFolder) {
  const fs::path folder = pipeline_folder("qwen-image");
  for (const char* const prefix : {"", "model.diffusion_model."}) {
    OpenOptions options{.parts = {{"vae", (folder / "vae").string()},
                                  {"text_encoder", single_file("qwen2.5-vl.gguf").string()}},  // and the tokenizer
                        .config = {{"axes_dims_rope", {2, 2, 4}},
                                   {"text_encoder.num_attention_heads", 4},
                                   {"text_encoder.num_key_value_heads", 2}}};
    const std::string file = write(tensors_in(folder / "transformer/diffusion_pytorch_model.safetensors", prefix));
    const std::unique_ptr<Pipeline> ours = open_pipeline(file, options), original = open_pipeline(folder.string());
    expect_equal_weights(ours->denoiser(), original->denoiser());
    expect_equal_outputs(*ours, *original);
  }
}

/// Numbers in blocks are those that the reader of GGUF unpacks.
TEST_F(SingleFileTest, OfGgufHasTheNumbersOfItsBlocks) {
  const GgufFile packed = GgufFile::open(single_file("flux-dev.gguf"));
  Tensors values;
  int blocks = 0;
  for (const GgufTensor& tensor : packed.header().tensors) {
    values.emplace(std::string(tensor.name), packed.unpack(tensor));
    if (tensor.format->elements > 1) ++blocks;
  }
  EXPECT_GT(blocks, 5);
  const Component ours = open_component(single_file("flux-dev.gguf").string(), axes());
  expect_equal_weights(ours, open_component(write(values), axes()));
}

/// Matrices of blocks in e4m3: raw casts, and of ComfyUI's two forms with a scale for all numbers of a matrix.
TEST_F(SingleFileTest, InEightBitFloatsHasTheirNumbersTimesTheScale) {
  const Tensors original = tensors_in(single_file("flux-dev.safetensors"));
  std::vector<HostTensor> raw;
  for (const std::string& scale_name : {std::string(), std::string("scale_weight"), std::string("weight_scale")}) {
    Tensors packed, values;
    for (const auto& [name, tensor] : original) {
      if (tensor.shape().rank() != 2 || name.find("blocks.") == std::string::npos) {
        packed.emplace(name, tensor);
        values.emplace(name, tensor);
        continue;
      }
      const float scale = scale_name.empty() ? 1.0F : 0.25F + 0.001F * static_cast<float>(values.size());
      HostTensor numbers(DType::kF8E4M3, tensor.shape()), products(DType::kF32, tensor.shape());
      for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        numbers.set(i, tensor.at(i) / scale);
        products.set(i, static_cast<double>(static_cast<float>(numbers.at(i)) * scale));
      }
      if (!scale_name.empty()) {
        HostTensor number(DType::kF32, {});
        number.set(0, scale);
        const std::string module = name.substr(0, name.size() - std::string(".weight").size());
        packed.emplace(module + "." + scale_name, number);
        if (scale_name == "scale_weight") packed.emplace(module + ".scale_input", number);
      }
      packed.emplace(name, std::move(numbers));
      values.emplace(name, std::move(products));
    }
    if (scale_name == "scale_weight") packed.emplace("scaled_fp8", HostTensor(DType::kF8E4M3, {0}));
    const std::unique_ptr<Pipeline> ours = open_pipeline(write(packed, "fp8.safetensors"), axes());
    const std::unique_ptr<Pipeline> exact = open_pipeline(write(values, "f32.safetensors"), axes());
    EXPECT_EQ(checkpoint_baseline(ours->denoiser().checkpoint), DType::kBF16) << "two bytes or less";
    EXPECT_THAT(ours->denoiser().checkpoint.notes().back(), HasSubstr(" in 8-bit floats"));
    // The scale of activations is that of all modules that the file joins.
    for (const char* const module : {"transformer_blocks.0.attn.to_q", "transformer_blocks.0.attn.to_k"}) {
      const std::string scale = std::string(module) + ".input_scale";
      EXPECT_EQ(ours->denoiser().checkpoint.has(scale), scale_name == "scale_weight");
      if (scale_name == "scale_weight") {
        EXPECT_EQ(ours->denoiser().checkpoint.read(scale).at(0),
                  packed.at("double_blocks.0.img_attn.qkv.scale_input").at(0));
      }
    }
    const HostTensor made = latents_of(*ours), expected = latents_of(*exact);
    EXPECT_TRUE(std::ranges::equal(made.bytes(), expected.bytes())) << scale_name;
    raw.push_back(made);
  }
  EXPECT_GT(relative_l2(raw[0], raw[1]), 0.0);
  EXPECT_EQ(relative_l2(raw[1], raw[2]), 0.0) << "both forms mean the same";
}

TEST_F(SingleFileTest, TellsTheSourceOfEachValue) {
  const SingleFile file = SingleFile::open(single_file("flux-dev.safetensors"));
  ASSERT_EQ(file.networks().size(), 1U);
  EXPECT_EQ(file.family()->name, "FLUX.1-dev");
  const SingleFile::InferredConfig inferred = file.infer(file.networks().front(), axes());
  const json folder = original().config;
  for (const auto& [key, value] : inferred.values.items())
    EXPECT_EQ(value, key == "out_channels" ? folder.at("in_channels") : folder.at(key)) << key;
  EXPECT_EQ(inferred.sources.at("num_layers"), "names and shapes");
  EXPECT_EQ(inferred.sources.at("axes_dims_rope"), "--config");
  EXPECT_THAT(file.unread(file.networks().front(), axes()), testing::IsEmpty());
}

TEST_F(SingleFileTest, WithOtherTensorsIsRefused) {
  Tensors tensors = tensors_in(single_file("flux-dev.safetensors"));
  tensors.emplace("double_blocks.0.img_attn.qkv.lora", HostTensor(DType::kF32, {2, 2}));
  EXPECT_THAT(error_of([&] { static_cast<void>(open_component(write(tensors), axes())); }),
              HasSubstr("has 1 tensor that a FluxTransformer2DModel does not know: double_blocks.0.img_attn.qkv.lora"));
  tensors.erase("double_blocks.0.img_attn.qkv.lora");
  tensors.erase("single_blocks.1.linear1.weight");
  tensors.insert_or_assign("double_blocks.1.txt_mlp.0.weight", HostTensor(DType::kF32, {95, 24}));
  const std::string error = error_of([&] { static_cast<void>(open_component(write(tensors), axes())); });
  EXPECT_THAT(error, HasSubstr("single_blocks.1.linear1.bias")) << "a block less, whose other tensors are left";
  tensors = tensors_in(single_file("flux-dev.safetensors"));
  tensors.insert_or_assign("double_blocks.1.txt_attn.qkv.weight", HostTensor(DType::kF32, {71, 24}));
  EXPECT_THAT(error_of([&] { static_cast<void>(open_component(write(tensors), axes())); }),
              HasSubstr("of another shape: double_blocks.1.txt_attn.qkv.weight is [71, 24] instead of [72, 24]"));
}

TEST_F(SingleFileTest, OfAnotherModelIsRefusedByName) {
  Tensors fill = tensors_in(single_file("flux-dev.safetensors"));
  fill.insert_or_assign("img_in.weight", HostTensor(DType::kF32, {24, 384}));
  EXPECT_THAT(
      error_of([&] { static_cast<void>(open_component(write(fill))); }),
      EndsWith("holds no network that can be opened from a file alone; it holds FLUX.1-Fill transformer (BFL names)"));
}

TEST_F(SingleFileTest, OfStableDiffusionTellsWhatItsUNetPredicts) {
  const auto prediction = [&](const char* name, const char* tensor, double deviation) {
    Tensors tensors = tensors_in(single_file(name));
    HostTensor values(DType::kF32, {320});
    for (std::int64_t i = 0; i < values.numel(); ++i) values.set(i, i % 2 == 0 ? deviation : -deviation);
    tensors.emplace(tensor, values);
    return SingleFile::open(write(tensors)).scheduler().at("prediction_type").get<std::string>();
  };
  const char* const bias = "model.diffusion_model.output_blocks.11.1.transformer_blocks.0.norm1.bias";
  EXPECT_EQ(prediction("sd-2.1.safetensors", bias, 0.2), "v_prediction");
  EXPECT_EQ(prediction("sd-2.1.safetensors", bias, 0.05), "epsilon");
  EXPECT_EQ(prediction("sdxl.safetensors", "v_pred", 0), "v_prediction");
  EXPECT_EQ(prediction("sdxl.safetensors", "other", 0), "epsilon");
}

/// A source of names and shapes alone.
class Names final : public TensorSource {
 public:
  explicit Names(std::vector<TensorSpec> tensors) : tensors_(std::move(tensors)) {}
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return tensors_; }
  [[nodiscard]] std::span<const std::byte> bytes(const TensorSpec& /*tensor*/) override { return {}; }
  [[nodiscard]] HostTensor read(const TensorSpec& tensor) override { return {tensor.dtype, {1}}; }
  void release(const TensorSpec& /*tensor*/) override {}

 private:
  std::vector<TensorSpec> tensors_;
};

/// Files are untrusted: whatever their names and shapes, they open or are refused in a sentence.
TEST(HostileNames, OpenOrAreRefused) {
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same on every machine
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  int opened = 0, refused = 0;
  for (const char* const name : {"sd-1.5", "sd-2.1", "sdxl", "flux-dev", "ae"}) {
    const std::vector<TensorSpec> original =
        open_safetensors(single_file(std::string(name) + ".safetensors"))->tensors();
    const OpenOptions own{.config = {{"norm_num_groups", 4}}};
    for (int i = 0; i < 40; ++i) {
      std::vector<TensorSpec> tensors = original;
      for (std::size_t change = below(4); change > 0; --change) {
        TensorSpec& tensor = tensors[below(tensors.size())];
        constexpr std::int64_t kExtents[] = {0, 1, 3, 1 << 20, std::int64_t{1} << 40};
        const std::size_t what = below(4);
        if (what == 0) tensor.name.insert(below(tensor.name.size()), 1, "0.9"[below(3)]);
        if (what == 1 && tensor.shape.rank() > 0)
          tensor.shape.set(static_cast<int>(below(static_cast<std::size_t>(tensor.shape.rank()))),
                           kExtents[below(std::size(kExtents))]);
        if (what == 2) tensor.shape = Shape{};
        if (what == 3) tensor.dtype = below(2) == 0 ? DType::kF8E4M3 : DType::kI64;
      }
      try {
        const SingleFile file = SingleFile::of("hostile", std::make_shared<Names>(std::move(tensors)));
        if (file.family() != nullptr) static_cast<void>(file.scheduler());
        for (const SingleFile::Network& network : file.networks()) {
          static_cast<void>(file.component(network, network.role == "text_encoder" ? OpenOptions{} : own));
          ++opened;
        }
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      }
    }
  }
  EXPECT_GT(opened, 20);
  EXPECT_GT(refused, 20);
}

TEST(SingleFileFamily, IsRecognizedByNamesAndShapes) {
  const auto roles = [](const char* name) {
    const SingleFile file = SingleFile::open(single_file(name));
    std::vector<std::string> found;
    for (const SingleFile::Network& network : file.networks())
      found.push_back(network.role + " " + network.class_name + " of " + std::string(network.family->name));
    return found;
  };
  EXPECT_THAT(roles("sd-1.5.safetensors"), UnorderedElementsAre("unet UNet2DConditionModel of Stable Diffusion 1.x",
                                                                "vae AutoencoderKL of Stable Diffusion 1.x",
                                                                "text_encoder CLIPTextModel of Stable Diffusion 1.x"));
  EXPECT_THAT(roles("sd-2.1.safetensors"), UnorderedElementsAre("unet UNet2DConditionModel of Stable Diffusion 2.x",
                                                                "vae AutoencoderKL of Stable Diffusion 2.x",
                                                                "text_encoder CLIPTextModel of Stable Diffusion 2.x"));
  EXPECT_THAT(
      roles("sdxl.safetensors"),
      UnorderedElementsAre("unet UNet2DConditionModel of SDXL", "vae AutoencoderKL of SDXL",
                           "text_encoder CLIPTextModel of SDXL", "text_encoder_2 CLIPTextModelWithProjection of SDXL"));
  EXPECT_THAT(roles("ae.safetensors"), UnorderedElementsAre("vae AutoencoderKL of FLUX.1-dev"));
}

}  // namespace
}  // namespace headroom
