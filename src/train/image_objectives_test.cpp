// Runs of `headroom train` on images: flow matching and classification.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/checkpoint.hpp"
#include "train/classification.hpp"
#include "train/flow_matching.hpp"
#include "train/labelled_images.hpp"
#include "train/training_run.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::int64_t kImages = 40, kClasses = 3, kSide = 4, kImageSteps = 10;

std::string idx(const std::vector<std::int64_t>& extents, const std::string& bytes) {
  std::string text("\0\0\x08", 3);
  text += static_cast<char>(extents.size());
  for (const std::int64_t extent : extents) text += std::string(3, '\0') + static_cast<char>(extent);
  return text + bytes;
}

/// Images of 4 x 4 pixels: of class k, all pixels of column k are bright.
class ImageRunTest : public testing::Test {
 protected:
  ImageRunTest() {
    std::string pixels, labels;
    for (std::int64_t image = 0; image < kImages; ++image) {
      labels += static_cast<char>(image % kClasses);
      for (std::int64_t i = 0; i < kSide * kSide; ++i)
        pixels += static_cast<char>(i % kSide == image % kClasses ? 200 + image : 5 * i);
    }
    write_file_atomically(folder_ / "images", std::string_view(idx({kImages, kSide, kSide}, pixels)));
    write_file_atomically(folder_ / "labels", std::string_view(idx({kImages}, labels)));
    const json data = {{"images", (folder_ / "images").string()}, {"labels", (folder_ / "labels").string()}};
    config_ = {{"data", data},
               {"batch", 6},
               {"micro_batches", 2},
               {"steps", kImageSteps},
               {"schedule", {{"learning_rate", 0.02}}},
               {"validation", {{"data", data}, {"every", 5}, {"batches", 2}}}};
    config_["data"]["pad"] = 1;
  }
  void use_flow() {
    config_["objective"] = {{"kind", "flow-matching"}, {"text_tokens", 2}};
    config_["averages"] = json::object();
    config_["model"] = {{"_class_name", "FluxTransformer2DModel"},
                        {"in_channels", 4},
                        {"num_layers", 1},
                        {"num_single_layers", 1},
                        {"attention_head_dim", 8},
                        {"num_attention_heads", 2},
                        {"joint_attention_dim", 6},
                        {"pooled_projection_dim", 5},
                        {"guidance_embeds", false},
                        {"axes_dims_rope", {2, 2, 4}}};
  }
  void use_classifier() {
    config_["objective"] = "classification";
    config_["model"] = {
        {"input", {{"shape", {"batch", 1, 6, 6}}}},
        {"feature_dim", 4},
        {"num_classes", kClasses},
        {"layers",
         {{{"op", "conv2d"},
           {"weight", "conv1.weight"},
           {"bias", "conv1.bias"},
           {"in_channels", 1},
           {"out_channels", 4},
           {"kernel", {3, 3}},
           {"stride", {1, 1}},
           {"padding", {0, 0}}},
          {{"op", "relu"}},
          {{"op", "mean"}},
          {{"op", "linear"}, {"weight", "fc.weight"}, {"bias", "fc.bias"}, {"in_features", 4}, {"out_features", 3}}}}};
  }
  RunOutcome train(const std::string& out, RunOptions options = {}) const {
    options.out = folder_ / out;
    Trainer trainer(parse_training_config(config_, "config"), SwitchSet::parse("lossless"), *cpu_);
    return run_training(trainer, options);
  }
  [[nodiscard]] std::string error() const {
    return error_of([&] { static_cast<void>(train("refused")); });
  }
  /// Trains at once and in two parts, and expects equal files. Returns the losses.
  std::vector<double> expect_repeatable() const {
    std::vector<double> losses;
    RunOptions options;
    options.on_step = [&](const StepRecord& record) { losses.push_back(record.loss); };
    static_cast<void>(train("whole", options));
    static_cast<void>(train("parts", {.last_step = 4}));
    static_cast<void>(train("parts", {.resume = true}));
    const std::string last = checkpoint_name(kImageSteps);
    int files = 0;
    for (const fs::path& path : list_folder(folder_ / "whole" / last)) {
      EXPECT_EQ(read_file(path), read_file(folder_ / "parts" / last / path.filename())) << path;
      ++files;
    }
    EXPECT_GE(files, 4);
    return losses;
  }

  TempFolder folder_;
  json config_;
  std::unique_ptr<Backend> cpu_ = make_backend(DeviceKind::kCpu);
};

TEST_F(ImageRunTest, FlowMatchingLearnsAndContinuesBitForBit) {
  use_flow();
  const std::vector<double> losses = expect_repeatable();
  EXPECT_NEAR(losses.front(), 2, 0.5) << "the output is 0: the mean square of noise less pixels";
  EXPECT_LT(losses.back(), losses.front());
  const fs::path last = folder_ / "whole" / checkpoint_name(kImageSteps);
  const Checkpoint model = Checkpoint::open(last);
  EXPECT_TRUE(model.has("transformer_blocks.0.attn.to_q.weight"));
  EXPECT_FALSE(model.has("prompts.pooled_projections"));
  const SafetensorsFile prompts = SafetensorsFile::open(last / "prompts.safetensors");
  EXPECT_EQ(prompts.read("encoder_hidden_states").shape(), (Shape{kClasses + 1, 2, 6}));
  EXPECT_EQ(prompts.read("pooled_projections").shape(), (Shape{kClasses + 1, 5}));

  // A run that begins with a checkpoint has its prompts too.
  config_["model"] = last.string();
  config_["frozen"] = "transformer_blocks";
  std::vector<double> second;
  RunOptions options{.last_step = 1};
  options.on_step = [&](const StepRecord& record) { second.push_back(record.loss); };
  static_cast<void>(train("second", options));
  const SafetensorsFile moved = SafetensorsFile::open(folder_ / "second" / checkpoint_name(1) / "prompts.safetensors");
  EXPECT_LT(relative_l2(moved.read("pooled_projections"), prompts.read("pooled_projections")), 0.1);
}

TEST_F(ImageRunTest, FlowMatchingSeesEveryImageWithItsPromptOrNone) {
  use_flow();
  config_["objective"]["no_prompt"] = 0.5;
  const FlowMatching objective(parse_training_config(config_, "config"));
  std::set<double> prompts;
  int without = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    const BatchData data = objective.data(step);
    const HostTensor& images = data.tensors.at("images");
    EXPECT_EQ(images.shape(), (Shape{2, 6, 9, 4}));
    for (std::int64_t i = 0; i < 12; ++i) {
      const double prompt = data.tensors.at("prompts").at(i);
      without += static_cast<int>(prompt == kClasses);
      prompts.insert(prompt);
      const auto column = static_cast<std::int64_t>(prompt) + 1;  // with the padding
      // Row 2 of 6: patch (1, column / 2), its upper row.
      const std::int64_t at = (i * 9 + 3 + column / 2) * 4 + column % 2;
      if (prompt < kClasses) {
        EXPECT_GE(images.at(at), 200) << step;
      }
      const double sigma = data.tensors.at("sigmas").at(i);
      EXPECT_TRUE(sigma > 0 && sigma < 1);
    }
  }
  EXPECT_EQ(prompts.size(), kClasses + 1U);
  EXPECT_NEAR(without, 60, 20);
  EXPECT_NE(objective.data(0).normals.at("noise").stream, objective.data(1).normals.at("noise").stream);
}

TEST_F(ImageRunTest, ClassificationLearnsAndContinuesBitForBit) {
  use_classifier();
  config_["steps"] = kImageSteps;
  config_["schedule"]["learning_rate"] = 0.1;
  const std::vector<double> losses = expect_repeatable();
  EXPECT_LT(losses.back(), 0.93 * std::log(3));
  const Checkpoint model = Checkpoint::open(folder_ / "whole" / checkpoint_name(kImageSteps));
  EXPECT_NO_THROW(static_cast<void>(parse_classifier_config(model.config())));
  EXPECT_TRUE(model.has("fc.weight"));
}

TEST_F(ImageRunTest, LabelledImagesHavePaddingAndPatches) {
  const LabelledImages images({(folder_ / "images").string(), (folder_ / "labels").string()}, 1);
  EXPECT_EQ(images.count(), kImages);
  EXPECT_EQ(images.rows(), 6);
  EXPECT_EQ(images.classes(), kClasses);
  EXPECT_EQ(images.label(4), 1);
  std::vector<std::uint8_t> pixels(36), patches(36);
  images.copy_patches(4, 1, pixels);
  images.copy_patches(4, 2, patches);
  EXPECT_THAT(std::vector(pixels.begin(), pixels.begin() + 13), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 204, 10, 15, 0, 0));
  EXPECT_THAT(std::vector(patches.begin(), patches.begin() + 8), ElementsAre(0, 0, 0, 0, 0, 0, 204, 10));
}

TEST_F(ImageRunTest, SaysWhatDoesNotFit) {
  use_flow();
  config_["objective"]["patch"] = 3;
  EXPECT_THAT(error(), HasSubstr("in_channels is 4, expected the 9 pixels of a patch: objective.patch is 3"));
  config_["objective"]["patch"] = 4;
  EXPECT_THAT(error(), HasSubstr("images of 6 x 6 pixels with their padding, expected multiples of patch, 4"));
  use_classifier();
  config_["data"]["pad"] = 2;
  EXPECT_THAT(error(), HasSubstr("images of 1 x 8 x 8 with their padding, but the model takes 1 x 6 x 6"));
  config_["data"]["pad"] = 1;
  config_["model"]["num_classes"] = 2;
  config_["model"]["layers"][3]["out_features"] = 2;
  EXPECT_THAT(error(), HasSubstr("has the label 2, but the model's num_classes is 2"));
  write_file_atomically(folder_ / "labels", std::string_view(idx({3}, "abc")));
  EXPECT_THAT(error(), HasSubstr("labels: expected 40 labels"));
  EXPECT_FALSE(fs::exists(folder_ / "refused"));
}

}  // namespace
}  // namespace headroom
