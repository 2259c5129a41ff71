#include "io/lora_scales.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/lora_file.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LoraScalesOfFiles : public testing::Test {
 protected:
  /// Rank-4 factors of one module.
  static std::map<std::string, HostTensor> factors(const std::string& module, bool is_peft = true) {
    return {{module + (is_peft ? ".lora_A.weight" : ".lora_down.weight"), HostTensor(DType::kF32, {4, 8})},
            {module + (is_peft ? ".lora_B.weight" : ".lora_up.weight"), HostTensor(DType::kF32, {8, 4})}};
  }
  LoraFile open(const std::map<std::string, HostTensor>& tensors, const SafetensorsMetadata& metadata = {},
                const char* name = "adapter_model.safetensors") {
    write_safetensors(folder_ / name, tensors, metadata);
    return LoraFile::open(folder_ / name);
  }
  void configure(const json& config) { write_json(folder_ / "adapter_config.json", config); }

  double of_header(const std::string& metadata, const std::string& module = "transformer.x.attn.to_q") {
    return open(factors(module), {{"lora_adapter_metadata", metadata}}).modules()[0].scale;
  }
  double of_config(const json& config, const std::string& module = "base_model.model.x.attn.to_q") {
    configure(config);
    return open(factors(module)).modules()[0].scale;
  }
  std::string refusal_of_config(const json& config) {
    return error_of([&] { static_cast<void>(of_config(config)); });
  }
  TempFolder folder_;
};

TEST_F(LoraScalesOfFiles, AreInTheHeaderByComponent) {
  EXPECT_EQ(of_header(R"({"transformer.r": 4, "transformer.lora_alpha": 8})"), 2);
  EXPECT_EQ(of_header(R"({"transformer.r": 4, "transformer.lora_alpha": 8, "transformer.use_rslora": true})"), 4);
  const std::string patterns =
      R"({"transformer.lora_alpha": 8, "transformer.alpha_pattern": {"attn.to_q": 2, "to_q": 3, "^to_k": 5}})";
  EXPECT_EQ(of_header(patterns), 0.5);
  EXPECT_EQ(of_header(patterns, "transformer.y.to_q"), 0.75);
  EXPECT_EQ(of_header(patterns, "transformer.to_k"), 1.25);
  EXPECT_EQ(of_header(patterns, "transformer.y.to_k"), 2);
  EXPECT_EQ(of_header(patterns, "transformer.y.into_q"), 2);
  EXPECT_EQ(of_header(patterns, "text_encoder.y.to_q"), 1);
  EXPECT_EQ(of_header(R"({"transformer.lora_alpha": 8, "transformer.alpha_pattern": {"attn\\.to_[qk]": 2}})"), 0.5);
  EXPECT_EQ(of_header(R"({"transformer.lora_alpha": 8})", "transformer.base_model.model.y.to_q"), 2);
}

TEST_F(LoraScalesOfFiles, AreInTheHeaderOfANetworkAlone) {
  EXPECT_EQ(of_header(R"({"r": 4, "lora_alpha": 6})", "x.to_q"), 1.5);
  EXPECT_EQ(of_header(R"({"r": 4, "lora_alpha": 6, "alpha_pattern": {"to_q": 2}})", "unet.x.to_q"), 0.5);
  EXPECT_EQ(of_header(R"({"lora_alpha": 6, "unet.lora_alpha": 12})", "unet.x.to_q"), 3);
}

TEST_F(LoraScalesOfFiles, AreInTheAdapterConfiguration) {
  EXPECT_EQ(of_config({{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}}), 2);
  EXPECT_EQ(of_config({{"r", 4}, {"lora_alpha", 8}, {"use_rslora", true}}), 4);
  EXPECT_EQ(of_config({{"r", 8}, {"lora_alpha", 1}, {"rank_pattern", {{"to_q", 4}}}, {"alpha_pattern", {{"to_q", 6}}}}),
            1.5);
  EXPECT_EQ(of_config({{"r", 4}, {"lora_alpha", 2}, {"alpha_pattern", {{"a.to_q", 6}, {"attn.to_q", 7}, {"to_q", 9}}}}),
            1.75)
      << "the first key that fits, as peft";
  EXPECT_EQ(of_config({{"r", 4}}), 2) << "peft's default alpha, 8";
  EXPECT_EQ(of_config({{"r", 4}, {"lora_alpha", 2.5}, {"alpha_pattern", nullptr}, {"use_rslora", nullptr}}), 0.625);
  configure({{"r", 4}, {"lora_alpha", 8}});
  const std::map<std::string, HostTensor> whole = {{"x.lokr_w1", HostTensor(DType::kF32, {2, 2})},
                                                   {"x.lokr_w2", HostTensor(DType::kF32, {4, 4})}};
  configure({{"peft_type", "LOKR"}, {"r", 4}, {"alpha", 6}, {"lora_alpha", 100}});
  EXPECT_EQ(open(whole).modules()[0].scale, 1.5) << "of whole matrices too";
}

TEST_F(LoraScalesOfFiles, OfTensorsAndHeadersComeBeforeTheConfiguration) {
  configure({{"r", 4}, {"lora_alpha", 8}});
  std::map<std::string, HostTensor> tensors = factors("x");
  EXPECT_EQ(open(tensors, {{"lora_adapter_metadata", R"({"lora_alpha": 12})"}}).modules()[0].scale, 3);
  EXPECT_EQ(open(tensors, {{"lora_alpha", "12"}}).modules()[0].scale, 2);
  HostTensor alpha(DType::kF32, Shape{});
  alpha.set(0, 1);
  tensors.emplace("x.alpha", alpha);
  tensors.merge(factors("y"));
  const LoraFile file = open(tensors, {{"lora_alpha", "12"}});
  EXPECT_EQ(file.modules()[0].scale, 0.25);
  EXPECT_EQ(file.modules()[1].scale, 1) << "in a file with alphas a missing alpha is the rank";
  EXPECT_THAT(file.notes(), IsEmpty());
}

TEST_F(LoraScalesOfFiles, AreInPlainKeysOfTheHeader) {
  const auto scale_of = [&](const SafetensorsMetadata& metadata) {
    return open(factors("x"), metadata).modules()[0].scale;
  };
  EXPECT_EQ(scale_of({{"lora_alpha", "8"}, {"r", "4"}}), 2);
  EXPECT_EQ(scale_of({{"alpha", "2.0"}}), 0.5);
  EXPECT_EQ(scale_of({{"network_alpha", " 1e1 "}, {"network_dim", "4"}}), 2.5);
  EXPECT_EQ(scale_of({{"lora_alpha", "8"}, {"use_rslora", "True"}}), 4);
  EXPECT_EQ(scale_of({{"lora_alpha", "None"}, {"rank", "16"}}), 1);
  const auto refusal = [&](const SafetensorsMetadata& metadata) {
    return error_of([&] { static_cast<void>(scale_of(metadata)); });
  };
  EXPECT_THAT(refusal({{"lora_alpha", "8"}, {"alpha", "4"}}),
              AllOf(HasSubstr("lora_alpha is '8' and its alpha '4', expected the same")));
  EXPECT_THAT(refusal({{"lora_alpha", "8"}, {"rank", "x"}}), HasSubstr("rank is 'x', expected a rank"));
  EXPECT_THAT(refusal({{"lora_alpha", "8"}, {"rank", "16"}}),
              HasSubstr("the rank is 16 for 'x', whose factors have rank 4"));
}

TEST_F(LoraScalesOfFiles, ThatAreNotTakenAreNoted) {
  const auto note_of = [&](const SafetensorsMetadata& metadata, bool is_peft = true) {
    const LoraFile file = open(factors("x", is_peft), metadata);
    EXPECT_EQ(file.modules()[0].scale, 1);
    return file.notes().empty() ? std::string() : file.notes().front();
  };
  EXPECT_THAT(note_of({{"lora_alpha", "Dynamic"}}),
              HasSubstr("lora_alpha is 'Dynamic', expected a number: the scale is 1"));
  EXPECT_THAT(note_of({{"ss_network_alpha", "8"}, {"ss_network_dim", "4"}}),
              HasSubstr("ss_network_alpha, '8', is not taken"));
  EXPECT_EQ(note_of({{"ss_network_alpha", "4"}, {"ss_network_dim", "4.0"}}), "");
  EXPECT_EQ(note_of({{"ss_network_alpha", "None"}}), "");
  configure({{"r", 4}, {"lora_alpha", 8}});
  EXPECT_THAT(note_of({}, /*is_peft=*/false), HasSubstr("adapter_config.json is not taken"));
  const LoraFile other = open(factors("x"), {}, "style.safetensors");
  EXPECT_EQ(other.modules()[0].scale, 2);
  EXPECT_THAT(other.notes(),
              ElementsAre(HasSubstr("style.safetensors: its rank and alpha are taken from adapter_config.json")));
}

TEST_F(LoraScalesOfFiles, OfAnotherRankAreRefused) {
  EXPECT_THAT(refusal_of_config({{"r", 8}, {"lora_alpha", 8}}),
              AllOf(HasSubstr("adapter_config.json: the rank is 8 for 'x.attn.to_q', whose factors have rank 4")));
  EXPECT_THAT(refusal_of_config({{"r", 4}, {"rank_pattern", {{"to_q", 2}}}}), HasSubstr("the rank is 2"));
  EXPECT_THAT(refusal_of_config({{"r", 0}}), HasSubstr("r is 0, expected a rank of at least 1"));
  EXPECT_THAT(refusal_of_config({{"r", "4"}}), HasSubstr("adapter_config.json"));
  EXPECT_THAT(refusal_of_config(json::array()), HasSubstr("adapter_config.json: expected a JSON object"));
  EXPECT_THAT(error_of([&] { static_cast<void>(of_header("[]")); }),
              HasSubstr("lora_adapter_metadata: expected a JSON object"));
  EXPECT_THAT(
      error_of([&] {
        static_cast<void>(of_header(R"({"transformer.lora_alpha": 1, "transformer.alpha_pattern": {"attn(": 2}})"));
      }),
      HasSubstr("transformer.alpha_pattern: 'attn(' is not a regular expression"));
}

TEST_F(LoraScalesOfFiles, OfChangedBaseWeightsAreRefusedByName) {
  for (const char* name : {"pissa", "pissa_niter_16", "olora", "OLoRA", "corda", "lora_ga"})
    EXPECT_THAT(refusal_of_config({{"r", 4}, {"lora_alpha", 4}, {"init_lora_weights", name}}),
                AllOf(HasSubstr("adapter_config.json: init_lora_weights is '" + std::string(name) + "'"),
                      HasSubstr("path_initial_model_for_weight_conversion")))
        << name;
  EXPECT_THAT(refusal_of_config({{"r", 4}, {"init_lora_weights", "loftq"}}), HasSubstr("merge it into the weights"));
  for (const json& name : {json(true), json(false), json("gaussian"), json("eva"), json("orthogonal"), json(nullptr)})
    EXPECT_EQ(of_config({{"r", 4}, {"lora_alpha", 8}, {"init_lora_weights", name}}), 2) << name;
  EXPECT_THAT(
      error_of([&] {
        static_cast<void>(of_header(R"({"transformer.r": 4, "transformer.init_lora_weights": "pissa_niter_4"})"));
      }),
      AllOf(HasSubstr("lora_adapter_metadata: transformer.init_lora_weights is 'pissa_niter_4'")));
}

TEST_F(LoraScalesOfFiles, OfOtherKindsAreRefused) {
  EXPECT_THAT(refusal_of_config({{"peft_type", "OFT"}, {"r", 4}}),
              HasSubstr("peft_type is 'OFT', expected LORA, LOHA or LOKR"));
  EXPECT_THAT(refusal_of_config({{"r", 4}, {"use_qalora", true}}),
              HasSubstr("use_qalora is set, which is not supported"));
  EXPECT_THAT(refusal_of_config({{"r", 4}, {"kasa_config", json::object()}}), HasSubstr("kasa_config"));
  EXPECT_THAT(refusal_of_config({{"r", 4}, {"layer_replication", {{0, 2}, {1, 3}}}}), HasSubstr("layer_replication"));
  EXPECT_EQ(of_config({{"r", 4}, {"lora_alpha", 4}, {"use_qalora", false}, {"use_bdlora", nullptr}}), 1);
  EXPECT_THAT(refusal_of_config({{"r", 4}, {"use_dora", true}}),
              HasSubstr("'x.attn.to_q' is configured as DoRA, expected a tensor 'x.attn.to_q.lora_magnitude_vector'"));
}

}  // namespace
}  // namespace headroom
