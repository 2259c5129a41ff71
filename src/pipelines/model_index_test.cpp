#include "pipelines/model_index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

class ModelIndexTest : public testing::Test {
 protected:
  ModelIndex write(const std::string& text) {
    write_file_atomically(folder_ / "model_index.json", text);
    return ModelIndex(folder_.path());
  }
  std::string error_in(const std::string& text) {
    return error_of([&] { static_cast<void>(write(text)); });
  }
  TempFolder folder_;
};

TEST_F(ModelIndexTest, NamesThePartsThatAreThere) {
  EXPECT_FALSE(ModelIndex::is_in(folder_.path()));
  const ModelIndex index = write(
      R"({"_class_name": "FluxPipeline", "_diffusers_version": "0.35", "vae": ["diffusers", "AutoencoderKL"],
          "image_encoder": [null, null], "tokenizer": ["transformers", "CLIPTokenizer"]})");
  EXPECT_TRUE(ModelIndex::is_in(folder_.path()));
  EXPECT_EQ(index.class_name(), "FluxPipeline");
  EXPECT_TRUE(index.has("vae"));
  EXPECT_FALSE(index.has("image_encoder")) << "which the pipeline does without";
  EXPECT_FALSE(index.has("_class_name"));
  std::filesystem::create_directory(folder_ / "vae");
  EXPECT_EQ(index.part("vae", "AutoencoderKL"), folder_ / "vae");
}

TEST_F(ModelIndexTest, SaysWhatIsWrong) {
  const ModelIndex index = write(R"({"_class_name": "FluxPipeline", "vae": ["diffusers", "AutoencoderKL"]})");
  const auto part = [&](const char* name, const char* expected = "") {
    return error_of([&] { static_cast<void>(index.part(name, expected)); });
  };
  EXPECT_THAT(part("vae"), HasSubstr("vae is not there, though model_index.json names it"));
  EXPECT_THAT(part("vae", "AutoencoderTiny"), HasSubstr("vae is AutoencoderKL, expected AutoencoderTiny"));
  EXPECT_THAT(part("scheduler"), HasSubstr("has no part 'scheduler', which FluxPipeline needs"));
  EXPECT_THAT(error_in("{"), HasSubstr("model_index.json"));
  EXPECT_THAT(error_in("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_in("{}"), HasSubstr("_class_name"));
  EXPECT_THAT(error_in(R"({"_class_name": 3})"), HasSubstr("_class_name"));
}

}  // namespace
}  // namespace headroom
