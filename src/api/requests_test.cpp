// Pictures and LoRA files of requests, by the public interface alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/headroom.hpp"
#include "base/test_paths.hpp"

namespace {

using headroom::Device;
using headroom::Generator;
using headroom::Image;
using headroom::ImageRequest;
using headroom::ImageSize;
using headroom::Pipeline;
using headroom::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string golden(const char* name) { return std::string(headroom::kSourceDir) + "/tests/goldens/" + name; }

Image picture(int height, int width, int seed) {
  Image image{.width = width, .height = height, .channels = 3, .pixels = {}};
  for (int i = 0; i < 3 * height * width; ++i) image.pixels.push_back(static_cast<std::uint8_t>((i * 37 + seed) % 251));
  return image;
}

TEST(Requests, StartFromAPicture) {
  const Pipeline pipeline(Device("cpu", 2), golden("pipelines/sd-1.5"));
  const auto draw = [&](const Image& from, double strength) {
    Generator generator(pipeline,
                        {.steps = 4, .pictures = {{.height = from.height, .width = from.width}}, .strength = strength});
    const ImageRequest request{.seed = 3, .prompt = "a fox", .pictures = {from}};
    return generator.decode(generator.generate(std::span(&request, 1)));
  };
  const Image gray = picture(32, 48, 0), other = picture(32, 48, 100);
  const Tensor weak = draw(gray, 0.25);
  EXPECT_EQ(weak.shape(), (headroom::Shape{1, 3, 32, 48})) << "the size is the picture's";
  EXPECT_EQ(headroom::relative_l2(draw(gray, 0.25), weak), 0);
  EXPECT_GT(headroom::relative_l2(draw(other, 0.25), weak), 1e-3);
  EXPECT_GT(headroom::relative_l2(draw(gray, 1), weak), 1e-3);
}

TEST(Requests, RefusePicturesThatDoNotFit) {
  const Pipeline pipeline(Device("cpu", 2), golden("pipelines/sd-1.5"));
  const std::vector<ImageSize> sizes = {{.height = 32, .width = 32}};
  EXPECT_THAT(
      [&] {
        Generator(pipeline, {.pictures = {sizes[0], sizes[0]}});
      },
      ThrowsMessage<headroom::Error>(HasSubstr("image is given 2 times, expected at most 1")));
  EXPECT_THAT([&] { Generator(pipeline, {.pictures = {{.height = 0, .width = 32}}}); },
              ThrowsMessage<headroom::Error>(HasSubstr("32 x 0 pixels")));
  EXPECT_THAT([&] { Generator(pipeline, {.strength = 0.5}); }, ThrowsMessage<headroom::Error>(HasSubstr("strength")));
  Generator generator(pipeline, {.steps = 2, .pictures = sizes, .strength = 0.5});
  const auto generate = [&](std::vector<Image> pictures) {
    return [&generator, pictures] {
      const ImageRequest request{.prompt = "a fox", .pictures = pictures};
      (void)generator.generate(std::span(&request, 1));
    };
  };
  EXPECT_THAT(generate({}), ThrowsMessage<headroom::Error>(HasSubstr("0 pictures, expected 1")));
  EXPECT_THAT(generate({picture(32, 48, 0)}), ThrowsMessage<headroom::Error>(HasSubstr("48 x 32 pixels, expected 32")));
  Image broken = picture(32, 32, 0);
  broken.pixels.pop_back();
  EXPECT_THAT(generate({broken}), ThrowsMessage<headroom::Error>(HasSubstr("a byte for each")));
  const Pipeline fashion(Device("cpu", 2), std::string(headroom::kSourceDir) + "/models/fashion-flux");
  EXPECT_THAT([&] { Generator(fashion, {.pictures = sizes}); },
              ThrowsMessage<headroom::Error>(HasSubstr("fashion-flux edits no images")));
}

// Generators that exist follow, and so do the prompts that they have encoded.
TEST(Requests, LorasChangeAllGenerators) {
  Pipeline pipeline(Device("cpu", 2), golden("pipelines/sd-1.5"));
  Generator generator(pipeline, {.height = 32, .width = 32, .steps = 2});
  const ImageRequest request{.seed = 3, .prompt = "a fox"};
  const auto draw = [&] { return generator.generate(std::span(&request, 1)); };
  const Tensor plain = draw();
  const headroom::Lora lora[] = {{.file = golden("pipelines/sd-1.5/lora.safetensors"), .weight = 0.75}};
  pipeline.set_loras(lora);
  const Tensor changed = draw();
  EXPECT_GT(headroom::relative_l2(changed, plain), 1e-4);
  Generator later(pipeline, {.height = 32, .width = 32, .steps = 2});
  EXPECT_EQ(headroom::relative_l2(later.generate(std::span(&request, 1)), changed), 0);
  const headroom::Lora missing[] = {{.file = "no-such.safetensors"}};
  EXPECT_THAT([&] { pipeline.set_loras(missing); }, ThrowsMessage<headroom::Error>(HasSubstr("no-such.safetensors")));
  EXPECT_EQ(headroom::relative_l2(draw(), changed), 0) << "nothing changes where a file is missing";
  pipeline.set_loras({});
  EXPECT_EQ(headroom::relative_l2(draw(), plain), 0) << "bit by bit as before";
}

}  // namespace
