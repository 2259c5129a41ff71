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
  EXPECT_EQ(kohya.factors->up.shape, (Shape{4, 2}));
  EXPECT_EQ(kohya.factors->down->shape, (Shape{2, 8}));
  const LoraModule& peft = file.modules()[5];
  EXPECT_EQ(peft.scale, 1);
  EXPECT_TRUE(peft.bias);
  EXPECT_EQ(peft.factors->up.dtype, DType::kBF16);
  EXPECT_TRUE(file.modules()[2].difference && file.modules()[2].bias_difference && !file.modules()[2].factors);
  EXPECT_EQ(file.modules()[3].value->shape, (Shape{8}));
}

TEST_F(LoraFiles, OfConvolutionsAreMatricesOfFilters) {
  const LoraFile file = open({{"lora_unet_conv1.lora_down.weight", tensor({2, 8, 3, 3})},
                              {"lora_unet_conv1.lora_up.weight", tensor({4, 2, 1, 1})}});
  EXPECT_EQ(file.modules()[0].factors->down->shape, (Shape{2, 72}));
  EXPECT_EQ(file.modules()[0].factors->up.shape, (Shape{4, 2}));
}

TEST_F(LoraFiles, AreOfModulesWithoutWrappersAndAdaptersNames) {
  const auto module_of = [&](const std::string& down, const std::string& up) {
    const LoraFile file = open({{down, tensor({2, 8})}, {up, tensor({4, 2})}});
    EXPECT_EQ(file.modules().size(), 1U);
    EXPECT_TRUE(file.modules()[0].factors);
    return file.modules()[0].name;
  };
  EXPECT_EQ(module_of("x.y.lora_A.default.weight", "x.y.lora_B.default.weight"), "x.y");
  EXPECT_EQ(module_of("x.y.lora_A.my_style-2.weight", "x.y.lora_B.my_style-2.weight"), "x.y");
  EXPECT_EQ(module_of("x.y.lora_down.default.weight", "x.y.lora_up.default.weight"), "x.y");
  EXPECT_EQ(module_of("base_model.model.x.lora_A.weight", "base_model.model.x.lora_B.weight"), "x");
  EXPECT_EQ(module_of("unet.base_model.model.x.lora_A.weight", "unet.base_model.model.x.lora_B.weight"), "unet.x");
  EXPECT_EQ(module_of("transformer.base_model.model.x.lora_A.weight", "transformer.base_model.model.x.lora_B.weight"),
            "transformer.x");
  EXPECT_EQ(module_of("transformer._orig_mod.x.lora_A.a.weight", "transformer._orig_mod.x.lora_B.a.weight"),
            "transformer.x");
  EXPECT_EQ(module_of("my_base_model.model.x.lora_A.weight", "my_base_model.model.x.lora_B.weight"),
            "my_base_model.model.x");
  EXPECT_THAT(refusal({{"x.lora_A.a.weight", tensor({2, 8})},
                       {"x.lora_B.a.weight", tensor({4, 2})},
                       {"y.lora_A.b.weight", tensor({2, 8})},
                       {"y.lora_B.b.weight", tensor({4, 2})}}),
              HasSubstr("a.safetensors holds several adapters, 'a' and 'b', expected one"));
  EXPECT_THAT(refusal({{"x.lora_A.a.b.weight", tensor({2, 8})}}), HasSubstr("no part of a LoRA"));
  EXPECT_THAT(refusal({{"x.lora_A.bias", tensor({2})}}), HasSubstr("no part of a LoRA"));
}

TEST_F(LoraFiles, HaveAlphasOfAnyNumbers) {
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kI8, DType::kU8, DType::kF64, DType::kBF16})
    EXPECT_EQ(open({{"x.lora_down.weight", tensor({2, 8})},
                    {"x.lora_up.weight", tensor({4, 2})},
                    {"x.alpha", number(4, dtype)}})
                  .modules()[0]
                  .scale,
              2)
        << static_cast<int>(dtype);
  EXPECT_THAT(refusal({{"x.lora_down.weight", tensor({2, 8})},
                       {"x.lora_up.weight", tensor({4, 2})},
                       {"x.alpha", number(1, DType::kBool)}}),
              HasSubstr("'x.alpha' bool[] is not of a dtype"));
}

TEST_F(LoraFiles, HoldProductsOfTwoMatrices) {
  const LoraFile file = open({{"a.hada_w1_a", tensor({8, 3})},
                              {"a.hada_w1_b", tensor({3, 4})},
                              {"a.hada_w2_a", tensor({8, 3})},
                              {"a.hada_w2_b", tensor({3, 4})},
                              {"a.alpha", number(1)},
                              {"b.hada_w1_a.default", tensor({3, 8})},
                              {"b.hada_w1_b.default", tensor({3, 4})},
                              {"b.hada_t1.default", tensor({3, 3, 2, 5})},
                              {"b.hada_w2_a.default", tensor({3, 8})},
                              {"b.hada_w2_b.default", tensor({3, 4})},
                              {"b.hada_t2.default", tensor({3, 3, 2, 5})},
                              {"c.lokr_w1", tensor({2, 2})},
                              {"c.lokr_w2_a", tensor({4, 2})},
                              {"c.lokr_w2_b", tensor({2, 5, 3, 3})},
                              {"c.alpha", number(3)},
                              {"d.lokr_w1", tensor({2, 2})},
                              {"d.lokr_w2", tensor({4, 5, 3, 3})},
                              {"d.alpha", number(3)},
                              {"e.lora_down.weight", tensor({2, 8, 1, 1})},
                              {"e.lora_mid.weight", tensor({2, 2, 3, 3})},
                              {"e.lora_up.weight", tensor({4, 2, 1, 1})},
                              {"f.w_norm", tensor({4})},
                              {"f.b_norm", tensor({4})}});
  const std::span<const LoraModule> modules = file.modules();
  ASSERT_EQ(modules.size(), 6U);
  EXPECT_EQ(modules[0].kind, LoraModule::Kind::kLoha);
  EXPECT_DOUBLE_EQ(modules[0].scale, 1.0 / 3);
  EXPECT_EQ(modules[0].second->down->shape, (Shape{3, 4}));
  EXPECT_EQ(modules[1].factors->up.shape, (Shape{8, 3}));
  EXPECT_EQ(modules[1].second->core->shape, (Shape{3, 3, 10}));
  EXPECT_EQ(modules[2].kind, LoraModule::Kind::kLokr);
  EXPECT_EQ(modules[2].scale, 1.5);
  EXPECT_EQ(modules[2].second->down->shape, (Shape{2, 45}));
  EXPECT_EQ(modules[3].scale, 1) << "of whole matrices";
  EXPECT_EQ(modules[3].second->up.shape, (Shape{4, 45}));
  EXPECT_EQ(modules[4].factors->core->shape, (Shape{2, 2, 9}));
  EXPECT_EQ(modules[4].factors->down->shape, (Shape{2, 8}));
  EXPECT_TRUE(modules[5].difference && modules[5].bias_difference);
}

TEST_F(LoraFiles, HoldMagnitudesOfOutputsOrOfInputs) {
  const auto shape_of = [&](const std::string& name, const Shape& shape) {
    return open({{"x.lora_A.weight", tensor({2, 8})}, {"x.lora_B.weight", tensor({4, 2})}, {name, tensor(shape)}})
        .modules()[0]
        .magnitude->shape;
  };
  EXPECT_EQ(shape_of("x.lora_magnitude_vector", {4}), (Shape{4, 1}));
  EXPECT_EQ(shape_of("x.lora_magnitude_vector.weight", {1, 4, 1, 1}), (Shape{4, 1}));
  EXPECT_EQ(shape_of("x.lora_magnitude_vector.default.weight", {4}), (Shape{4, 1}));
  EXPECT_EQ(shape_of("x.dora_scale", {4, 1, 1, 1}), (Shape{4, 1}));
  EXPECT_EQ(shape_of("x.dora_scale", {1, 8}), (Shape{1, 8}));
  EXPECT_EQ(shape_of("x.dora_scale", {1, 8, 1, 1}), (Shape{1, 8}));
  const auto with = [&](const std::string& name, const Shape& shape) {
    return refusal({{"x.lora_A.weight", tensor({2, 8})}, {"x.lora_B.weight", tensor({4, 2})}, {name, tensor(shape)}});
  };
  EXPECT_THAT(with("x.dora_scale", {4, 8}), HasSubstr("'x.dora_scale' f32[4, 8] is no vector of magnitudes"));
  EXPECT_THAT(with("x.dora_scale", {1, 1, 8}), HasSubstr("no vector of magnitudes"));
  EXPECT_THAT(with("x.dora_scale", {0}), HasSubstr("no vector of magnitudes"));
  EXPECT_THAT(with("y.dora_scale", {4}), HasSubstr("'y.dora_scale' f32[4] belongs to a module without factors"));
}

TEST_F(LoraFiles, LeaveBundledEmbeddingsOut) {
  Tensors tensors = {{"x.lora_A.weight", tensor({2, 8})}, {"x.lora_B.weight", tensor({4, 2})}};
  tensors.emplace("bundle_emb.<fox>.clip_l", tensor({2, 8}));
  tensors.emplace("clip_g", tensor({2, 16}));
  const LoraFile file = open(tensors);
  EXPECT_EQ(file.modules().size(), 1U);
  EXPECT_THAT(file.notes(), ElementsAre(AllOf(HasSubstr("a.safetensors: the embedding 'bundle_emb.<fox>.clip_l'"),
                                              HasSubstr("is not used"))));
  EXPECT_THAT(refusal({{"clip_l", tensor({2, 8})}}), HasSubstr("holds no tensors of a LoRA"));
}

TEST_F(LoraFiles, RefuseWhatIsMoreThanAnUpdate) {
  const auto with = [&](const std::string& name) {
    return refusal({{"x.lora_A.weight", tensor({2, 8})}, {"x.lora_B.weight", tensor({4, 2})}, {name, tensor({4, 1})}});
  };
  EXPECT_THAT(with("y.oft_blocks"), AllOf(HasSubstr("a.safetensors: tensor 'y.oft_blocks'"), HasSubstr("kind OFT")));
  EXPECT_THAT(with("x.ia3_l.weight"), HasSubstr("IA3"));
  EXPECT_THAT(with("x.lora_E"), HasSubstr("AdaLoRA"));
  EXPECT_THAT(with("x.vera_lambda_b"), HasSubstr("VeRA"));
}

TEST_F(LoraFiles, RefuseProductsThatAreIncomplete) {
  const HostTensor a = tensor({8, 3}), b = tensor({3, 4});
  EXPECT_THAT(refusal({{"x.hada_w1_a", a}, {"x.hada_w1_b", b}}),
              HasSubstr("'x.hada_w1_a' f32[8, 3] has no other factor"));
  EXPECT_THAT(refusal({{"x.hada_w1_a", a}, {"x.hada_w1_b", b}, {"x.hada_w2_a", a}}),
              HasSubstr("'x.hada_w2_a' f32[8, 3] has no other factor"));
  EXPECT_THAT(refusal({{"x.hada_w1_a", a}, {"x.hada_w1_b", b}, {"x.hada_w2_a", tensor({7, 3})}, {"x.hada_w2_b", b}}),
              HasSubstr("'x.hada_w2_a' f32[7, 3] does not fit 'x.hada_w1_a', which has 8 rows"));
  EXPECT_THAT(refusal({{"x.lokr_w1", a}}), HasSubstr("'x.lokr_w1' f32[8, 3] has no other factor"));
  EXPECT_THAT(refusal({{"x.lokr_w1", a}, {"x.lokr_w2_a", a}}), HasSubstr("'x.lokr_w2_a' f32[8, 3] has no other"));
  EXPECT_THAT(refusal({{"x.lokr_w1", a}, {"x.lokr_w2_a", a}, {"x.lokr_w2_b", tensor({2, 4})}}),
              HasSubstr("the rank, 3 and 2"));
  EXPECT_THAT(refusal({{"x.lokr_w1", a}, {"x.lokr_w2_a", a}, {"x.lokr_w2_b", b}, {"x.lokr_t2", tensor({3, 8, 3, 3})}}),
              HasSubstr("the rank"));
  EXPECT_THAT(
      refusal({{"x.lora_down.weight", b}, {"x.lora_up.weight", a}, {"x.lora_mid.weight", tensor({2, 3, 1, 1})}}),
      HasSubstr("'x.lora_mid.weight' f32[2, 3, 1, 1] does not fit 'x.lora_down.weight': expected [3, 3, "));
  EXPECT_THAT(refusal({{"x.lora_down.weight", b}, {"x.lora_up.weight", a}, {"x.lokr_w1", a}}),
              HasSubstr("'x.lokr_w1' f32[8, 3] is of another kind of adapter than 'x.lora_up.weight'"));
  EXPECT_THAT(refusal({{"x.hada_w1_a", a}, {"x.lokr_w1", a}}), HasSubstr("of another kind"));
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
  EXPECT_THAT(refusal({{"x.lora_A.weight", tensor({0, 8, 3, 3})}, {"x.lora_B.weight", up}}),
              HasSubstr("'x.lora_A.weight' f32[0, 8, 3, 3] is empty"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", tensor({2, 8}, DType::kI32)}, {"x.lora_B.weight", up}}),
              HasSubstr("not of a dtype"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", tensor({2, 8}, DType::kF8E4M3)}, {"x.lora_B.weight", up}}),
              HasSubstr("not of a dtype"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", up}, {"x.lora_B.bias", tensor({5})}}),
              HasSubstr("'x.lora_B.bias' f32[5] does not fit"));
  EXPECT_THAT(refusal({{"x.alpha", number(1)}}), HasSubstr("belongs to a module without factors"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", up}, {"x.alpha", tensor({2})}}),
              HasSubstr("expected one number"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", up}, {"x.alpha", number(1.0 / 0.0)}}),
              HasSubstr("expected a number"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_B.weight", up}, {"x.alpha", number(1e300, DType::kF64)}}),
              HasSubstr("the scale of 'x' is 5e+299"));
  EXPECT_THAT(refusal({{"x.lora_A.weight", down}, {"x.lora_down.weight", down}, {"x.lora_B.weight", up}}),
              HasSubstr("says again what 'x.lora_A.weight' says"));
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
