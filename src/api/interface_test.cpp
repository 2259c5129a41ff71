// The public interface as an application uses it; no other header is included.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "api/headroom.hpp"
#include "base/test_paths.hpp"

namespace {

using headroom::CompiledPass;
using headroom::Component;
using headroom::Device;
using headroom::Error;
using headroom::Generator;
using headroom::ImageRequest;
using headroom::Pipeline;
using headroom::Session;
using headroom::Shape;
using headroom::Shapes;
using headroom::Tensor;
using headroom::view_of;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

constexpr headroom::PassSize kSize{.batch = 1, .height = 32, .width = 48, .text_tokens = 3};

std::string golden(const char* name) { return std::string(headroom::kSourceDir) + "/tests/goldens/flux/" + name; }

Component tiny_flux(const Device& device = Device("cpu", 2)) { return {device, golden("tiny-guidance")}; }

CompiledPass compile(const Component& network, std::string_view switches = "baseline") {
  return network.compile("forward", network.input_shapes("forward", kSize), switches);
}

void set_inputs(Session& session) {
  for (const headroom::TensorInfo& input : session.pass().inputs()) {
    Tensor ramp(input.dtype, input.shape);
    const std::span<float> elements = ramp.floats();
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = std::sin(static_cast<float>(i));
    session.set_input(input.name, ramp);
  }
}

Tensor sample_of(const CompiledPass& pass) {
  Session session(pass);
  set_inputs(session);
  session.run();
  return session.output("sample");
}

/// The Error that `body` throws; nothing if it throws none.
template <class Body>
std::optional<Error> error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

template <class Body>
void expect_error(const Body& body, Error::Kind kind, const std::string& words) {
  const std::optional<Error> error = error_of(body);
  ASSERT_TRUE(error.has_value()) << "nothing was thrown; expected: " << words;
  EXPECT_EQ(error->kind(), kind) << error->what();
  EXPECT_THAT(error->what(), HasSubstr(words));
}

TEST(InterfaceTest, ANetworkSaysWhatItIs) {
  const Component network = tiny_flux();
  EXPECT_EQ(network.name(), "tiny-guidance");
  EXPECT_EQ(network.class_name(), "FluxTransformer2DModel");
  EXPECT_GT(network.parameters(), 0);
  EXPECT_EQ(network.device().name(), "cpu");
  EXPECT_EQ(network.device().threads(), 2);
  ASSERT_THAT(network.passes(), ElementsAre(Field(&headroom::PassInfo::name, "forward")));
  const Shapes shapes = network.input_shapes("forward", kSize);
  for (const std::string& input : network.passes().front().inputs) EXPECT_TRUE(shapes.contains(input)) << input;
  EXPECT_THAT(shapes.at("txt_ids"), ElementsAre(3, testing::_));
  EXPECT_EQ(network.weight_bytes(), 0U);
}

TEST(InterfaceTest, APassSaysWhatBecameOfTheSwitches) {
  const Component network = tiny_flux();
  const CompiledPass pass = compile(network, "arena,fuse,hoist");
  EXPECT_THAT(pass.switches(), ElementsAre("arena", "fuse", "hoist"));
  EXPECT_THAT(pass.applied(), ElementsAre("arena", "fuse"));
  ASSERT_THAT(pass.declined(), ElementsAre(Field(&headroom::Declined::switch_name, "hoist")));
  EXPECT_THAT(pass.declined().front().reason, HasSubstr("loop"));
  EXPECT_LT(pass.launches().size(), compile(network).launches().size());
  EXPECT_THAT(pass.plan_text(), HasSubstr("program"));
  EXPECT_GT(pass.plan_text(true).size(), pass.plan_text().size());
}

TEST(InterfaceTest, ExactSwitchesGiveTheBaselinesOutputs) {
  const Component network = tiny_flux();
  const Tensor baseline = sample_of(compile(network));
  const Tensor lossless = sample_of(compile(network, "lossless"));
  EXPECT_LT(headroom::relative_l2(lossless, baseline), 1e-5);
  EXPECT_TRUE(std::ranges::any_of(baseline.floats(), [](float element) { return element != 0; }));
}

TEST(InterfaceTest, InputsStayFromRunToRunUntilTheyAreSetAgain) {
  Session session(compile(tiny_flux()));
  set_inputs(session);
  session.run();
  const Tensor first = session.output("sample");
  session.run();
  EXPECT_TRUE(std::ranges::equal(session.output("sample").bytes(), first.bytes()));
  const Tensor zeros(headroom::DType::kF32,
                     session.pass().component().input_shapes("forward", kSize).at("hidden_states"));
  session.set_input("hidden_states", zeros);
  session.run();
  EXPECT_GT(headroom::relative_l2(session.output("sample"), first), 1e-3);
}

TEST(InterfaceTest, MemoryIsWhatWasSaidAndIsGivenBack) {
  const Device device("cpu", 2);
  const Component network = tiny_flux(device);
  const CompiledPass pass = compile(network, "arena");
  const headroom::MemoryNeed need = pass.memory_need();
  EXPECT_EQ(device.memory().used, 0U);
  {
    Session session(pass);
    set_inputs(session);
    session.run();
    EXPECT_EQ(network.weight_bytes(), need.weights);
    EXPECT_EQ(device.memory().used, need.weights + need.activations + need.inputs);
    EXPECT_LE(device.memory().peak, need.total());
  }
  EXPECT_EQ(device.memory().used, need.weights);  // for the next session
}

TEST(InterfaceTest, WeightsOfOtherPassesAreDroppedOnRequest) {
  Component network = tiny_flux();
  const CompiledPass plain = compile(network);
  const CompiledPass fused = compile(network, "fuse");  // its weights are merged
  { const Session both[] = {Session(plain), Session(fused)}; }
  const std::size_t before = network.weight_bytes();
  network.keep_weights_of(fused);
  EXPECT_EQ(network.weight_bytes(), fused.memory_need().weights);
  EXPECT_LT(network.weight_bytes(), before);
}

TEST(InterfaceTest, InputsAndOutputsMayLieInMemoryOfTheCallers) {
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  Session session(compile(tiny_flux(), "lossless"));
  set_inputs(session);
  session.run();
  const Tensor own = session.output("sample");

  const headroom::TensorInfo info = session.pass().inputs().front();
  Tensor input(info.dtype, info.shape);
  std::ranges::generate(input.floats(), [i = 0]() mutable { return std::sin(static_cast<float>(i++)); });
  std::vector<Line> input_lines(input.bytes().size() / sizeof(Line) + 1),
      output_lines(own.bytes().size() / sizeof(Line) + 1);
  std::ranges::copy(input.bytes(), std::as_writable_bytes(std::span(input_lines)).begin());
  const auto shown = std::as_bytes(std::span(output_lines)).first(own.bytes().size());
  session.bind_input(info.name, {input_lines.data(), input.bytes().size()});
  session.bind_output("sample", {output_lines.data(), own.bytes().size()});
  session.submit();
  session.wait();
  EXPECT_TRUE(std::ranges::equal(shown, own.bytes()));
  EXPECT_EQ(session.stream(), nullptr);

  input_lines[0] = {};  // the caller writes the next input in place
  session.run();
  EXPECT_FALSE(std::ranges::equal(shown, own.bytes()));
  EXPECT_TRUE(std::ranges::equal(shown, session.output("sample").bytes()));

  session.unbind_output("sample");
  session.unbind_input(info.name);
  expect_error([&] { session.run(); }, Error::Kind::kFailed, info.name);
  session.set_input(info.name, input);
  session.run();
  EXPECT_TRUE(std::ranges::equal(session.output("sample").bytes(), own.bytes()));
}

TEST(InterfaceTest, EachLaunchIsReported) {
  Session session(compile(tiny_flux(), "lossless"));
  set_inputs(session);
  std::vector<std::string> paths;
  double total = 0;
  session.observe_launches([&](const headroom::Launch& launch, double milliseconds) {
    paths.push_back(launch.path);
    total += milliseconds;
  });
  session.run();
  std::vector<std::string> expected;
  for (const headroom::Launch& launch : session.pass().launches()) expected.push_back(launch.path);
  EXPECT_EQ(paths, expected);
  EXPECT_GT(total, 0);
  EXPECT_THAT(paths, Contains(HasSubstr("transformer_blocks.0.")));
  session.observe_launches({});
  session.run();
  EXPECT_EQ(paths.size(), expected.size());
}

TEST(InterfaceTest, WhatIsMadeKeepsAliveWhatItWasMadeFrom) {
  std::optional<Session> session;
  session.emplace(compile(tiny_flux()));
  Session moved = std::move(*session);
  session.reset();
  set_inputs(moved);
  moved.run();
  EXPECT_EQ(moved.pass().component().device().name(), "cpu");
}

TEST(InterfaceTest, AnotherThreadMayGoOn) {
  Session session(compile(tiny_flux(), "lossless"));
  set_inputs(session);
  session.run();
  const Tensor here = session.output("sample");
  std::thread([&] { session.run(); }).join();
  EXPECT_TRUE(std::ranges::equal(session.output("sample").bytes(), here.bytes()));
}

TEST(InterfaceTest, RandomWeightsStandInForACheckpoint) {
  const Device device("cpu", 2);
  const auto sample = [&](std::uint64_t seed) {
    return sample_of(compile({device, golden("tiny-guidance"), {.random_seed = seed}}));
  };
  const Tensor one = sample(1);
  EXPECT_TRUE(std::ranges::equal(one.bytes(), sample(1).bytes()));
  EXPECT_GT(headroom::relative_l2(sample(2), one), 1e-3);
}

TEST(InterfaceTest, TheBaselineMayComputeInBf16) {
  const Component network(Device("cpu", 2), golden("tiny-guidance"), {.baseline = headroom::DType::kBF16});
  EXPECT_THAT(compile(network, "bf16").declined(), ElementsAre(Field(&headroom::Declined::switch_name, "bf16")));
}

TEST(InterfaceTest, ModelsThatShipAndFoldersAreListed) {
  const auto models = headroom::shipped_models();
  ASSERT_THAT(models, Contains(Field(&headroom::ShippedModel::name, "fashion-flux")));
  const auto [found, left_out] = headroom::models_in(golden("tiny-guidance"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().class_name, "FluxTransformer2DModel");
  EXPECT_THAT(found.front().passes, ElementsAre("forward"));
  EXPECT_EQ(found.front().parameters, tiny_flux().parameters());
  const auto whole = headroom::models_in(std::string(headroom::kSourceDir) + "/models/fashion-flux");
  EXPECT_THAT(whole.models.front().passes, ElementsAre("request"));
  EXPECT_TRUE(whole.left_out.empty());
  EXPECT_TRUE(left_out.empty());
  expect_error([] { (void)headroom::models_in(golden("no-such-folder")); }, Error::Kind::kFailed, "no-such-folder");
}

TEST(InterfaceTest, AnOutputMayStayOnTheDevice) {
  Session session(compile(tiny_flux(), "lossless"));
  set_inputs(session);
  expect_error([&] { (void)session.device_output("sample"); }, Error::Kind::kFailed, "has not run");
  session.run();
  const Tensor own = session.output("sample");
  const headroom::DeviceTensor kept = session.device_output("sample");
  const Tensor zeros(headroom::DType::kF32,
                     session.pass().component().input_shapes("forward", kSize).at("hidden_states"));
  session.set_input("hidden_states", zeros);
  session.run();
  EXPECT_EQ(kept.device().name(), "cpu");
  EXPECT_EQ(kept.shape(), own.shape());
  EXPECT_EQ(kept.bytes(), own.bytes().size());
  EXPECT_TRUE(std::ranges::equal(kept.to_host().bytes(), own.bytes())) << "later runs do not change it";
  EXPECT_EQ(std::memcmp(kept.data(), own.bytes().data(), kept.bytes()), 0);
}

TEST(InterfaceTest, ANetworkMayHaveItsWeightsInMemory) {
  const std::string config =
      R"({"_class_name": "AutoencoderTiny", "in_channels": 1, "out_channels": 1, "latent_channels": 2,
          "encoder_block_out_channels": [4], "decoder_block_out_channels": [4], "num_encoder_blocks": [1],
          "num_decoder_blocks": [1]})";
  const Device device("cpu", 2);
  headroom::NetworkInMemory network{.name = "own", .config = config};
  expect_error([&] { Component(device, network); }, Error::Kind::kFailed, "own");  // no weights
  network.config = "{";
  expect_error([&] { Component(device, network); }, Error::Kind::kFailed, "own");
  network.config = R"({"_class_name": "NoSuchModel"})";
  expect_error([&] { Component(device, network); }, Error::Kind::kFailed, "NoSuchModel");
}

TEST(InterfaceTest, ImagesBecomePngs) {
  Tensor pixels(headroom::DType::kF32, {2, 1, 1, 3});
  std::ranges::copy(std::array<float, 6>{-2, 0, 1, 1, 1, -1}, pixels.floats().begin());
  const std::vector<headroom::Image> images = headroom::to_images(pixels);
  ASSERT_EQ(images.size(), 2U);
  EXPECT_THAT(images[0].pixels, ElementsAre(0, 128, 255));
  EXPECT_EQ(headroom::encode_png(images[0]).substr(1, 3), "PNG");
  EXPECT_NE(headroom::encode_png(images[0]), headroom::encode_png(images[1]));
  const auto kind = Error::Kind::kFailed;
  expect_error([] { (void)headroom::encode_png({.width = 2, .height = 1, .channels = 1, .pixels = {0}}); }, kind,
               "has 1 bytes");
  expect_error([&] { headroom::write_png("/no/such/folder/a.png", images[0]); }, kind, "/no/such/folder");
  expect_error([] { (void)headroom::to_images(Tensor(headroom::DType::kF32, {1, 2, 1, 1})); }, kind, "[1, 2, 1, 1]");
  pixels.floats()[0] = std::nanf("");
  expect_error([&] { (void)headroom::to_images(pixels); }, kind, "NaN");
}

TEST(InterfaceTest, FramesOfAStreamAreMadeAnew) {
  const Component network(Device("cpu", 2), std::string(headroom::kSourceDir) + "/models/live-ink");
  headroom::FrameStream stream(network, {.height = 16, .width = 32});
  EXPECT_EQ(stream.height(), 16);
  EXPECT_EQ(stream.delay(), 0);
  std::vector<std::uint8_t> frame(std::size_t{16} * 32 * 3);
  std::iota(frame.begin(), frame.end(), std::uint8_t{0});
  const headroom::Image first = stream.next(frame);
  EXPECT_EQ(first.pixels.size(), frame.size());
  EXPECT_NE(first.pixels, frame);
  stream.restart();
  EXPECT_EQ(stream.next(frame).pixels, first.pixels);
  expect_error([&] { (void)stream.next(std::span(frame).first(3)); }, Error::Kind::kFailed, "has 3 bytes");
  expect_error([&] { headroom::FrameStream(network, {.height = -1}); }, Error::Kind::kUsage, "-1");
}

TEST(InterfaceTest, WrongRequestsAreUsageErrors) {
  const Component network = tiny_flux();
  auto kind = Error::Kind::kUsage;
  expect_error([] { Device("tpu"); }, kind, "device 'tpu'");
  expect_error([] { Device("cpu", -1); }, kind, "-1 threads");
  expect_error([&] { Component(network.device(), "fashion-flax"); }, kind, "did you mean 'fashion-flux'?");
  expect_error([&] { Component(network.device(), golden("tiny-guidance"), {.baseline = headroom::DType::kI8}); }, kind,
               "the baseline i8 was asked for");
  expect_error([&] { (void)compile(network, "flsh"); }, kind, "did you mean 'flash'?");
  expect_error([&] { (void)compile(network, "auto"); }, kind, "auto");
  expect_error([&] { Session(compile(network), {.stream = &kind}); }, kind, "a stream was given for cpu");
  expect_error([&] { (void)network.input_shapes("decode"); }, kind, "has no pass 'decode'");
  expect_error([&] { (void)network.input_shapes("forward", {.height = 17}); }, kind, "17");
}

TEST(InterfaceTest, WrongTensorsAreErrors) {
  const Component network = tiny_flux();
  const auto kind = Error::Kind::kFailed;
  Session session(compile(network));
  const std::array<float, 2> two{};
  expect_error([&] { session.set_input("noise", view_of({2}, two)); }, kind, "there is no input 'noise'; the pass has");
  expect_error([&] { session.set_input("timestep", view_of({2}, two)); }, kind,
               "'timestep' is f32[2], expected f32[1]");
  expect_error([&] { session.set_input("timestep", {.shape = {1}, .bytes = {}}); }, kind, "has 0 bytes");
  expect_error([&] { (void)view_of({3}, two); }, kind, "has 3 elements, got 2");
  expect_error([&] { (void)headroom::to_string(headroom::Shape(9, 1)); }, kind, "9 axes");
  expect_error([&] { Tensor(headroom::DType::kF32, {-1}); }, kind, "expected no extent below 0");
  expect_error([&] { (void)Tensor(headroom::DType::kI8, {1}).floats(); }, kind, "i8");
  expect_error([&] { session.run(); }, kind, "which has not been given");
  expect_error([&] { (void)session.output("sample"); }, kind, "has not run");
  std::array<float, 4> memory{};
  expect_error([&] { session.bind_input("timestep", {memory.data(), 16}); }, kind, "'timestep'");
  expect_error([&] { session.bind_output("image", {memory.data(), 16}); }, kind, "'image'");
  Shapes shapes = network.input_shapes("forward", kSize);
  shapes.erase("hidden_states");
  expect_error([&] { (void)network.compile("forward", shapes); }, kind, "'hidden_states'");
}

TEST(InterfaceTest, WhatDoesNotFitIsRefusedBeforeItIsLoaded) {
  const Device device("cpu", 2);
  const Component network = tiny_flux(device);
  Shapes shapes = network.input_shapes("forward", {.batch = 1, .height = 16'000, .width = 16'000, .text_tokens = 3});
  const CompiledPass pass = network.compile("forward", shapes);
  ASSERT_GT(pass.memory_need().total(), device.memory().installed);
  EXPECT_THROW(Session{pass}, headroom::OutOfMemory);
  EXPECT_EQ(device.memory().used, 0U);
}

TEST(InterfaceTest, TensorsAreReadWhateverTheirAlignment) {
  std::vector<std::byte> bytes(9);
  const float value = 1.5F;
  std::ranges::copy(std::as_bytes(std::span(&value, 1)), bytes.begin() + 1);
  const headroom::TensorView view{headroom::DType::kF32, {1}, std::span(bytes).subspan(1, 4)};
  EXPECT_EQ(headroom::relative_l2(view, view_of({1}, std::span(&value, 1))), 0);
  EXPECT_EQ(headroom::size_of(headroom::DType::kBF16), 2U);
  EXPECT_EQ(headroom::name_of(headroom::DType::kBF16), "bf16");
  EXPECT_FALSE(headroom::version().empty());
}

TEST(Interface, APipelineMakesImages) {
  const Pipeline pipeline(Device("cpu", 2), std::string(headroom::kSourceDir) + "/models/fashion-flux");
  EXPECT_EQ(pipeline.name(), "fashion-flux");
  EXPECT_TRUE(pipeline.has_pixels());
  ASSERT_EQ(pipeline.labels().size(), 10U);
  EXPECT_EQ(pipeline.labels()[7], "Sneaker");

  Generator one(pipeline, {.height = 16, .width = 32, .steps = 2}, "arena,int8");
  EXPECT_THAT(one.applied(), Contains("arena"));
  std::vector<std::int64_t> steps;
  const ImageRequest sneaker{.label = 7, .seed = 3};
  const Tensor latents =
      one.generate(std::span(&sneaker, 1), [&](std::int64_t step, double) { steps.push_back(step); });
  EXPECT_EQ(latents.shape(), (Shape{1, 8 * 16, 4}));
  EXPECT_THAT(steps, ElementsAre(0, 1));
  const Tensor pixels = one.decode(latents);
  EXPECT_EQ(pixels.shape(), (Shape{1, 1, 16, 32}));
  std::vector<std::string> stages;
  for (const headroom::StageTime& stage : one.stages()) stages.push_back(stage.name);
  EXPECT_THAT(stages, ElementsAre("tokenize", "text_encoder", "text_encoder_2", "inputs", "denoise", "decode"));
}

TEST(Interface, APromptInWordsIsDrawn) {
  const Pipeline pipeline(Device("cpu", 2), std::string(headroom::kSourceDir) + "/models/fashion-flux");
  Generator generator(pipeline, {.height = 16, .width = 16, .steps = 1});
  const auto draw = [&](const ImageRequest& image) { return generator.generate(std::span(&image, 1)); };
  const Tensor own = draw({.label = 7, .seed = 3}), sneaker = draw({.seed = 3, .prompt = "a sneaker"}),
               bag = draw({.seed = 3, .prompt = "a handbag"});
  EXPECT_LE(headroom::relative_l2(sneaker, own), 0.01) << "its own prompt of that label says the same";
  EXPECT_GE(headroom::relative_l2(bag, own), 0.03);
}

/// 0 and an empty text are explicit values; fields that are not set take the pipeline's defaults.
TEST(Interface, ZeroIsNotLeftToThePipeline) {
  const std::string folder = std::string(headroom::kSourceDir) + "/tests/goldens/pipelines/";
  const auto latents = [](const Pipeline& pipeline, headroom::RequestOptions options,
                          const std::optional<std::string>& negative = std::nullopt) {
    options.height = options.width = 32;
    options.steps = 2;
    const ImageRequest image{.prompt = "a cat", .negative_prompt = negative};
    return Generator(pipeline, options).generate(std::span(&image, 1));
  };
  const Pipeline xl(Device("cpu", 2), folder + "sdxl");
  const Tensor own = latents(xl, {}), none = latents(xl, {.guidance_scale = 0}),
               one = latents(xl, {.guidance_scale = 1});
  EXPECT_EQ(headroom::relative_l2(none, one), 0);
  EXPECT_GT(headroom::relative_l2(none, own), 1e-3);
  EXPECT_EQ(headroom::relative_l2(latents(xl, {.guidance_scale = 5}), own), 0);
  EXPECT_GT(headroom::relative_l2(latents(xl, {}, ""), own), 1e-3) << "an empty negative prompt is read, none is zeros";
  const Pipeline dev(Device("cpu", 2), folder + "flux-dev");
  EXPECT_GT(headroom::relative_l2(latents(dev, {.guidance_scale = 0}), latents(dev, {})), 1e-3);
}

TEST(Interface, NumbersThatMeanNothingAreRefused) {
  const Pipeline pipeline(Device("cpu", 2), std::string(headroom::kSourceDir) + "/models/fashion-flux");
  const auto refuse = [&](const headroom::RequestOptions& options, const std::string& words) {
    expect_error([&] { Generator(pipeline, options); }, Error::Kind::kUsage, words);
  };
  refuse({.steps = 0}, "steps is 0, expected at least 1");
  refuse({.height = -2}, "height is -2, expected at least 1");
  refuse({.width = 0}, "width is 0");
  refuse({.text_tokens = 0}, "text_tokens is 0");
  refuse({.images = 0}, "images is 0");
  for (const double scale : {std::nan(""), -1.0, HUGE_VAL, 101.0}) {
    refuse({.guidance_scale = scale}, "expected 0 to 100");
    refuse({.true_cfg_scale = scale}, "expected 0 to 100");
  }
}

TEST(Interface, AnImageOfAPipelineDoesNotDependOnItsBatch) {
  const Pipeline pipeline(Device("cpu", 2), std::string(headroom::kSourceDir) + "/models/fashion-flux");
  const ImageRequest sneaker{.label = 7, .seed = 3};
  const ImageRequest both[] = {{.label = 1, .seed = 9}, sneaker};
  Generator one(pipeline, {.height = 16, .width = 32, .steps = 2}),
      two(pipeline, {.images = 2, .height = 16, .width = 32, .steps = 2});
  const Tensor alone = one.generate(std::span(&sneaker, 1)), batch = two.generate(both);
  EXPECT_LE(headroom::relative_l2(view_of(alone.shape(), batch.floats().last(alone.floats().size())), alone), 1e-4);
}

TEST(Interface, APipelineRefusesWhatItCannotMake) {
  const Device device("cpu", 2);
  EXPECT_THROW(Pipeline(device, "flux-vae", {.random_seed = 0}), Error) << "which makes no images by itself";
  const Pipeline pipeline(device, std::string(headroom::kSourceDir) + "/models/fashion-flux");
  EXPECT_THROW(Generator(pipeline, {.height = 15}), Error) << "tokens are of two pixels";
  EXPECT_THROW(Generator(pipeline, {.steps = 2}, "no-such-switch"), Error);
  Generator generator(pipeline, {.height = 4, .width = 4, .steps = 1}, "baseline");
  EXPECT_THROW((void)generator.generate({}), Error);
  const ImageRequest wrong{.label = 99};
  EXPECT_THROW((void)generator.generate(std::span(&wrong, 1)), Error);
  EXPECT_THROW((void)generator.decode(Tensor(headroom::DType::kF32, {1, 2, 3})), Error);
  const Pipeline random(device, golden("tiny-guidance"));
  EXPECT_FALSE(random.has_pixels());
  EXPECT_TRUE(random.labels().empty());
}

}  // namespace
