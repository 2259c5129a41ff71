#include "io/lora_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Tensors = std::map<std::string, HostTensor>;

HostTensor tensor(const Shape& shape, DType dtype = DType::kF32) { return {dtype, shape}; }

HostTensor number(double value, DType dtype = DType::kF32) {
  HostTensor one(dtype, Shape{});
  one.set(0, value);
  return one;
}

class LoraFiles : public testing::Test {
 protected:
  LoraFile open(const Tensors& tensors, const SafetensorsMetadata& metadata = {}) {
    write_safetensors(folder_ / "a.safetensors", tensors, metadata);
    return LoraFile::open(folder_ / "a.safetensors");
  }
  std::string refusal(const Tensors& tensors, const SafetensorsMetadata& metadata = {}) {
    return error_of([&] { static_cast<void>(open(tensors, metadata)); });
  }
  TempFolder folder_;
};

TEST_F(LoraFiles, AreReadInEverySpelling) {
  const LoraFile file = open({{"transformer.a.lora_A.weight", tensor({2, 8}, DType::kBF16)},
                              {"transformer.a.lora_B.weight", tensor({4, 2}, DType::kBF16)},
                              {"transformer.a.lora_B.bias", tensor({4})},
                              {"lora_unet_b.lora_down.weight", tensor({2, 8, 1, 1})},
                              {"lora_unet_b.lora_up.weight", tensor({4, 2, 1, 1})},
                              {"lora_unet_b.alpha", number(1, DType::kF16)},
                              {"c.processor.qkv_lora1.down.weight", tensor({3, 8})},
                              {"c.processor.qkv_lora1.up.weight", tensor({12, 3})},
                              {"d.lora_linear_layer.down.weight", tensor({2, 8})},
                              {"d.lora_linear_layer.up.weight", tensor({4, 2})},
                              {"e.diff", tensor({4, 8})},
                              {"e.diff_b", tensor({4})},
                              {"f.norm.query_norm.scale", tensor({8})}});
  std::vector<std::string> names;
  for (const LoraModule& module : file.modules()) names.push_back(module.name);
  EXPECT_THAT(names,
              ElementsAre("c.processor.qkv_lora1", "d", "e", "f.norm.query_norm", "lora_unet_b", "transformer.a"));
  const LoraModule& kohya = file.modules()[4];
  EXPECT_EQ(kohya.scale, 0.5);
  EXPECT_EQ(kohya.up->shape, (Shape{4, 2}));
  EXPECT_EQ(kohya.down->shape, (Shape{2, 8}));
  const LoraModule& peft = file.modules()[5];
  EXPECT_EQ(peft.scale, 1);
  EXPECT_TRUE(peft.bias);
  EXPECT_EQ(peft.up->dtype, DType::kBF16);
  EXPECT_TRUE(file.modules()[2].difference && file.modules()[2].bias_difference && !file.modules()[2].up);
  EXPECT_EQ(file.modules()[3].value->shape, (Shape{8}));
}

TEST_F(LoraFiles, OfConvolutionsAreMatricesOfFilters) {
  const LoraFile file = open({{"lora_unet_conv1.lora_down.weight", tensor({2, 8, 3, 3})},
                              {"lora_unet_conv1.lora_up.weight", tensor({4, 2, 1, 1})}});
  EXPECT_EQ(file.modules()[0].down->shape, (Shape{2, 72}));
  EXPECT_EQ(file.modules()[0].up->shape, (Shape{4, 2}));
}

TEST_F(LoraFiles, HaveScalesInTheHeader) {
  const auto scale_of = [&](const std::string& metadata, const std::string& module = "transformer.x.attn.to_q") {
    return open({{module + ".lora_A.weight", tensor({4, 8})}, {module + ".lora_B.weight", tensor({8, 4})}},
                {{"lora_adapter_metadata", metadata}})
        .modules()[0]
        .scale;
  };
  EXPECT_EQ(scale_of(R"({"transformer.r": 4, "transformer.lora_alpha": 8})"), 2);
  EXPECT_EQ(scale_of(R"({"transformer.r": 4, "transformer.lora_alpha": 8, "transformer.use_rslora": true})"), 4);
  const std::string patterns =
      R"({"transformer.lora_alpha": 8, "transformer.alpha_pattern": {"attn.to_q": 2, "to_q": 3, "^to_k": 5}})";
  EXPECT_EQ(scale_of(patterns), 0.5);
  EXPECT_EQ(scale_of(patterns, "transformer.y.to_q"), 0.75);
  EXPECT_EQ(scale_of(patterns, "transformer.to_k"), 1.25);
  EXPECT_EQ(scale_of(patterns, "transformer.y.to_k"), 2);
  EXPECT_EQ(scale_of(patterns, "transformer.y.into_q"), 2);
  EXPECT_EQ(scale_of(patterns, "text_encoder.y.to_q"), 1);
}

TEST_F(LoraFiles, RefuseWhatIsMoreThanAProduct) {
  const auto with = [&](const std::string& name) {
    return refusal({{"x.lora_A.weight", tensor({2, 8})}, {"x.lora_B.weight", tensor({4, 2})}, {name, tensor({4, 1})}});
  };
  EXPECT_THAT(with("x.dora_scale"), AllOf(HasSubstr("a.safetensors: tensor 'x.dora_scale'"), HasSubstr("DoRA")));
  EXPECT_THAT(with("x.lora_magnitude_vector.weight"), HasSubstr("DoRA"));
  EXPECT_THAT(with("y.lokr_w1"), HasSubstr("LoKr"));
  EXPECT_THAT(with("y.hada_w1_a"), HasSubstr("LoHa"));
  EXPECT_THAT(with("y.oft_blocks"), HasSubstr("OFT"));
  EXPECT_THAT(with("x.lora_mid.weight"), HasSubstr("third factor"));
  EXPECT_THAT(refusal({{"x.alpha", number(1)}}, {{"lora_adapter_metadata", R"({"transformer.use_dora": true})"}}),
              HasSubstr("DoRA"));
}

TEST_F(LoraFiles, RefuseWhatIsNoLora) {
  const HostTensor down = tensor({2, 8}), up = tensor({4, 2});
  EXPECT_THAT(refusal({}), HasSubstr("holds no tensors"));
  EXPECT_THAT(refusal({{"x.weight", tensor({4, 8})}}),
              AllOf(HasSubstr("'x.weight' f32[4, 8]"), HasSubstr("no part of a LoRA")));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}}), HasSubstr("'x.lora_A.weight' f32[2, 8] has no other factor"));
  EXPECT_THAT(refusal({{"x.lora_up.weight", up}}), HasSubstr("'x.lora_up.weight'"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", tensor({4, 3})}}),
              AllOf(HasSubstr("the rank, 3 and 2"), HasSubstr("'x.lora_A.weight'")));
  EXPECT_THAT(refusal({{"x.lora_A.weight", tensor({0, 8})}, {"x.lora_B.weight", tensor({4, 0})}}), HasSubstr("rank"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", tensor({2, 8, 3})}, {"x.lora_B.weight", up}}), HasSubstr("no matrix"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", tensor({4, 2, 3, 3})}}), HasSubstr("no matrix"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", tensor({2, 8}, DType::kI32)}, {"x.lora_B.weight", up}}),
              HasSubstr("not of a dtype"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", tensor({2, 8}, DType::kF8E4M3)}, {"x.lora_B.weight", up}}),
              HasSubstr("not of a dtype"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", up}, {"x.lora_B.bias", tensor({5})}}),
              HasSubstr("'x.lora_B.bias' f32[5] does not fit"));
  EXPECT_THAT(refusal({{"x.alpha", number(1)}}), HasSubstr("no factors beside it"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", up}, {"x.alpha", tensor({2})}}),
              HasSubstr("expected one number"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", up}, {"x.alpha", number(1.0 / 0.0)}}),
              HasSubstr("expected a number"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_down.weight", down}, {"x.lora_B.weight", up}}),
              HasSubstr("says again what 'x.lora_A.weight' says"));
  const Tensors good = {{"transformer.x.lora_A.weight", down}, {"transformer.x.lora_B.weight", up}};
  EXPECT_THAT(refusal(good, {{"lora_adapter_metadata", "[]"}}), HasSubstr("lora_adapter_metadata"));
  EXPECT_THAT(refusal(good, {{"lora_adapter_metadata",
                              R"({"transformer.lora_alpha": 1, "transformer.alpha_pattern": {"attn.*": 2}})"}}),
              HasSubstr("regular expression"));
}

TEST_F(LoraFiles, LeaveOutNoFactorOfATypeThatIsNotRead) {
  const std::string header = R"({"a.lora_A.weight":{"dtype":"U16","shape":[1,4],"data_offsets":[0,8]},)"
                             R"("a.lora_B.weight":{"dtype":"U16","shape":[4,1],"data_offsets":[8,16]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  write_file_atomically(folder_ / "b.safetensors", file + header + std::string(16, '\1'));
  EXPECT_THAT(error_of([&] { static_cast<void>(LoraFile::open(folder_ / "b.safetensors")); }),
              HasSubstr("tensor \"a.lora_A.weight\" is U16, which is not read"));
}

}  // namespace
}  // namespace headroom
