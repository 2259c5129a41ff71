#include "io/foreign_quantization.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/checkpoint.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ForeignQuantization : public testing::Test {
 protected:
  /// The error for a checkpoint with tensors of these names and types.
  std::string error(const json& config, const std::map<std::string, DType>& tensors) const {
    write_json(folder_ / "config.json", config);
    std::map<std::string, HostTensor> values;
    for (const auto& [name, dtype] : tensors) values.emplace(name, HostTensor(dtype, Shape{2}));
    write_safetensors(folder_ / "diffusion_pytorch_model.safetensors", values);
    return error_of([&] { (void)Checkpoint::open(folder_.path()); });
  }
  std::string begin(std::string_view library) const {
    return fmt::format("{} was quantized by {} (", folder_.path().native(), library);
  }
  static constexpr std::string_view kWhatToDo = "give the checkpoint that it was made from";

  TempFolder folder_;
};

/// Spelled as by diffusers and transformers.
TEST_F(ForeignQuantization, IsReadInAConfig) {
  const std::pair<const char*, const char*> methods[] = {{"bitsandbytes", "bitsandbytes"},
                                                         {"torchao", "torchao"},
                                                         {"gguf", "GGUF"},
                                                         {"quanto", "optimum-quanto"},
                                                         {"gptq", "GPTQ"},
                                                         {"awq", "AWQ"},
                                                         {"sdnq", "sdnq"}};
  for (const auto& [method, name] : methods) {
    const json config = {{"_class_name", "X"}, {"quantization_config", {{"quant_method", method}}}};
    EXPECT_THAT(error(config, {{"a.weight", DType::kU8}}),
                AllOf(StartsWith(begin(name) + "\"quantization_config\" in config.json says \"" + method + "\")"),
                      HasSubstr(kWhatToDo)));
    // It remains in a network that was dequantized and saved.
    EXPECT_EQ(error(config, {{"a.weight", DType::kBF16}, {"a.bias", DType::kF32}}), "(no error)");
    // PyTorch's own files are not supported.
    fs::remove(folder_ / "diffusion_pytorch_model.safetensors");
    write_file_atomically(folder_ / "diffusion_pytorch_model.bin", "x");
    EXPECT_THAT(error_of([&] { (void)Checkpoint::open(folder_.path()); }), StartsWith(begin(name)));
  }
  EXPECT_THAT(error({{"quantization_config", {{"_load_in_4bit", true}}}}, {{"a.weight", DType::kU8}}),
              StartsWith(begin("bitsandbytes")));
  EXPECT_THAT(error({{"compression_config", {{"format", "x"}}}}, {{"a.weight", DType::kI8}}),
              StartsWith(begin("compressed-tensors")));
  EXPECT_EQ(error({{"quantization_config", nullptr}}, {{"a.weight", DType::kI8}}), "(no error)");
  EXPECT_EQ(error({{"quantization_config", {{"quant_method", "headroom"}}}},
                  {{"a.weight", DType::kI8}, {"a.weight_scale", DType::kF32}}),
            "(no error)");
}

/// Names of the tensors that the libraries store next to a weight.
TEST_F(ForeignQuantization, IsReadInNamesOfTensors) {
  const std::pair<const char*, const char*> names[] = {{"a.SCB", "bitsandbytes"},
                                                       {"a.weight.absmax", "bitsandbytes"},
                                                       {"a.weight.quant_map", "bitsandbytes"},
                                                       {"a.weight.quant_state.bitsandbytes__nf4", "bitsandbytes"},
                                                       {"a._weight_qdata", "torchao"},
                                                       {"a.weight._data", "optimum-quanto"},
                                                       {"a.g_idx", "GPTQ"},
                                                       {"a.qweight", "gptq or awq"},
                                                       {"a.wscales", "Nunchaku"},
                                                       {"a.weight_scale_inv", "transformers"},
                                                       {"scaled_fp8", "ComfyUI"}};
  for (const auto& [tensor, name] : names) {
    EXPECT_THAT(error(json::object(), {{"a.weight", DType::kI8}, {tensor, DType::kF32}}),
                AllOf(StartsWith(begin(name) + "its tensor " + tensor + ")"), HasSubstr(kWhatToDo)));
  }
  EXPECT_THAT(error(json::object(), {{"a.qweight", DType::kI32}, {"a.qzeros", DType::kI32}, {"b.g_idx", DType::kI32}}),
              StartsWith(begin("GPTQ") + "its tensor b.g_idx)"))
      << "the name that tells most";
  EXPECT_EQ(error(json::object(), {{"a.weight", DType::kF32}, {"norm.scale", DType::kF32}}), "(no error)");
}

TEST_F(ForeignQuantization, IsReadInNamesOfFiles) {
  write_file_atomically(folder_ / "quanto_qmap.json", "{}");
  EXPECT_THAT(error_of([&] { (void)Checkpoint::open(folder_.path()); }),
              StartsWith(begin("optimum-quanto") + "it holds quanto_qmap.json)"));
}

}  // namespace
}  // namespace headroom
