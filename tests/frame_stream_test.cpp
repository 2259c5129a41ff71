// Live streams: frames against what the pipeline makes of each by itself, batches against a frame at a time, and what changes while a
// stream runs.

#include "pipelines/streams/frame_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/tensors/random.hpp"
#include "base/test_paths.hpp"
#include "component_golden.hpp"
#include "media/video/test_video.hpp"
#include "pipeline_golden.hpp"
#include "pipelines/schedules/diffusion_schedule.hpp"
#include "pipelines/streams/live_stream_frame.hpp"

namespace headroom {
namespace {

using Pixels = std::vector<std::uint8_t>;

constexpr VideoFormat kVideo{.width = 48, .height = 32, .rate = {30, 1}};

Pixels camera_frame(const VideoFormat& format, std::int64_t number) {
  Pixels pixels(format.frame_bytes());
  draw_test_frame(format, 5 * number, pixels);
  return pixels;
}

int largest_difference(const Pixels& a, const Pixels& b) {
  int largest = a.size() == b.size() ? 0 : 256;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// A stream through a folder of tests/goldens, or a network of it.
class StreamOf {
 public:
  StreamOf(const std::string& folder, DeviceKind device, const VideoFormat& format = kVideo)
      : format_(format), backend_(make_backend(device)) {
    const std::string path = (source_dir(kSourceDir) / "tests/goldens" / folder).string();
    if (is_pipeline(path)) {
      pipeline_ = open_pipeline(path);
      model_ = make_stream_model(*pipeline_);
      weights_ = std::make_unique<WeightStore>(*backend_, pipeline_->components());
    } else {
      network_ = std::make_unique<Component>(open_component(path));
      model_ = make_stream_model(*network_);
      weights_ = std::make_unique<WeightStore>(*backend_, std::span<const Component>(network_.get(), 1));
    }
  }

  FrameStream& open(StreamOptions options, const std::string& switches) {
    options.size = {.height = format_.height, .width = format_.width};
    options.switches = SwitchSet::parse(switches);
    slots_.clear();
    stream_.reset();
    stream_ = std::make_unique<FrameStream>(*model_, *backend_, *weights_, options);
    for (int i = 0; i < 2; ++i) slots_.push_back(stream_->make_slot());
    stream_->warm_up(*slots_[0]);
    number_ = 0;
    return *stream_;
  }
  /// What comes out of the run on the camera's next frame.
  Pixels next() {
    FrameStream::Slot& slot = *slots_[static_cast<std::size_t>(number_) % slots_.size()];
    const Pixels frame = camera_frame(format_, number_);
    std::ranges::copy(frame, slot.in().begin());
    if (number_++ == 0) stream_->begin(slot.in());
    stream_->submit(slot);
    stream_->wait(slot);
    return {slot.out().begin(), slot.out().end()};
  }
  std::vector<Pixels> next(int count) {
    std::vector<Pixels> frames;
    for (int i = 0; i < count; ++i) frames.push_back(next());
    return frames;
  }

  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }
  [[nodiscard]] const Component& network() const { return *network_; }
  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] WeightStore& weights() { return *weights_; }
  [[nodiscard]] FrameStream& stream() { return *stream_; }

 private:
  VideoFormat format_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Component> network_;
  std::unique_ptr<StreamModel> model_;
  std::unique_ptr<WeightStore> weights_;
  std::unique_ptr<FrameStream> stream_;
  std::vector<std::unique_ptr<FrameStream::Slot>> slots_;
  std::int64_t number_ = 0;
};

constexpr const char* kPipeline = "pipelines/sd-2.1";
constexpr const char* kPrompt = "A red fox in the snow, golden hour!";

/// What the pipeline makes of a frame by itself, an image that it begins with.
Pixels image_of(StreamOf& of, const Pixels& frame, std::int64_t steps, double strength, std::uint64_t seed) {
  const auto rows = kVideo.height / of.pipeline().token_pixels(), columns = kVideo.width / of.pipeline().token_pixels();
  Generator generator(of.pipeline(), of.backend(), of.weights(),
                      {.token_rows = rows,
                       .token_columns = columns,
                       .references = {{rows, columns}},
                       .steps = steps,
                       .guidance_scale = 1,
                       .strength = strength,
                       .switches = SwitchSet::parse("lossless,sampler=ddim")});
  HostTensor image(DType::kF32, {1, 3, kVideo.height, kVideo.width});
  const std::int64_t pixels = std::int64_t{kVideo.height} * kVideo.width;
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t channel = 0; channel < 3; ++channel)
      image.set(channel * pixels + i, frame[static_cast<std::size_t>(3 * i + channel)] / 127.5 - 1);
  const std::vector<ImageRequest> requests = {{.seed = seed, .prompt = kPrompt, .references = {image}}};
  const HostTensor made = generator.decode(generator.generate(requests));
  Pixels shown(frame.size());
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t channel = 0; channel < 3; ++channel)
      shown[static_cast<std::size_t>(3 * i + channel)] =
          static_cast<std::uint8_t>(std::nearbyint((std::clamp(made.at(channel * pixels + i), -1.0, 1.0) + 1) * 127.5));
  return shown;
}

/// A copy of the pipeline whose steps are spaced so, where images and streams take the same timesteps if they are trailing.
class Spaced {
 public:
  explicit Spaced(const char* spacing) {
    const std::filesystem::path golden = source_dir(kSourceDir) / "tests/goldens" / kPipeline;
    std::filesystem::copy(golden, path(), std::filesystem::copy_options::recursive);
    nlohmann::json config = read_json(golden / "scheduler/scheduler_config.json");
    config["timestep_spacing"] = spacing;
    write_json(path() / "scheduler/scheduler_config.json", config);
  }
  [[nodiscard]] std::filesystem::path path() const { return temporary_ / "spaced"; }

 private:
  TempFolder temporary_;
};

TEST(FrameStream, IsWhatThePipelineMakesOfEachFrame) {
  const Spaced trailing("trailing");
  StreamOf of(trailing.path().string(), DeviceKind::kCpu);
  for (const std::int64_t steps : {std::int64_t{1}, std::int64_t{2}}) {
    of.open({.steps = steps, .strength = 0.5, .prompt = kPrompt, .seed = 7}, "lossless,sampler=ddim");
    for (int i = 0; i < 3; ++i)
      EXPECT_LE(largest_difference(of.next(), image_of(of, camera_frame(kVideo, i), 2 * steps, 0.5, 7)), 1)
          << steps << " steps, frame " << i;
  }
}

// A strength is a noise level: each changes what is shown, of one step too, with schedules that end near an image whatever their steps.
TEST(FrameStream, AStrengthIsANoiseLevelWhateverTheSpacing) {
  for (const char* spacing : {"leading", "linspace"}) {
    const Spaced folder(spacing);
    StreamOf of(folder.path().string(), DeviceKind::kCpu);
    std::vector<Pixels> frames;
    for (const double strength : {0.2, 0.4, 0.8}) {
      of.open({.steps = 1, .strength = strength, .prompt = kPrompt, .seed = 7}, "lossless");
      frames.push_back(of.next());
    }
    EXPECT_GT(largest_difference(frames[0], frames[1]), 3) << spacing;
    EXPECT_GT(largest_difference(frames[1], frames[2]), 3) << spacing;
  }
}

void expect_batches(DeviceKind device, const std::string& switches, int tolerance) {
  StreamOf of(kPipeline, device);
  for (const char* more : {"", ",sampler=lcm", ",rcfg=self", ",rcfg=initialize"})
    for (const int steps : {2, 3}) {
      const StreamOptions options{.steps = steps,
                                  .strength = 0.6,
                                  .prompt = kPrompt,
                                  .negative_prompt = std::string(more) == ",rcfg=initialize" ? "blurry" : "",
                                  .seed = 3};
      of.open(options, switches + more);
      const std::vector<Pixels> alone = of.next(6);
      const FrameStream& batched = of.open(options, fmt::format("{}{},stream-batch={}", switches, more, steps));
      EXPECT_EQ(batched.delay(), steps - 1);
      const std::vector<Pixels> together = of.next(6);
      for (int i = steps - 1; i < 6; ++i)
        EXPECT_LE(
            largest_difference(together[static_cast<std::size_t>(i)], alone[static_cast<std::size_t>(i - steps + 1)]),
            tolerance)
            << more << ' ' << steps << " steps, frame " << i;
    }
}

TEST(FrameStream, InBatchesIsTheSameLater) { expect_batches(DeviceKind::kCpu, "lossless", 1); }

TEST(FrameStream, GuidanceStrengthPromptAndSeedEachChangeWhatIsShownWithoutPlanningAnew) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  FrameStream& stream =
      of.open({.steps = 2, .strength = 0.5, .guidance_scale = 1.5, .prompt = kPrompt, .seed = 7}, "lossless,rcfg=self");
  const StreamOptions first = stream.options();
  std::vector<Pixels> shown = {of.next()};
  StreamOptions changed = first;
  for (int i = 0; i < 4; ++i) {
    changed = first;
    if (i == 0) changed.guidance_scale = 3;
    if (i == 1) changed.strength = 0.25;
    if (i == 2) changed.prompt = "a bowl of ramen";
    if (i == 3) changed.seed = 8;
    stream.change(changed);
    const Pixels other = of.next();
    stream.change(first);
    EXPECT_EQ(stream.plans(), 1) << i;
    shown.push_back(other);
  }
  // Frame by frame what the same stream shows that never changed.
  of.open(first, "lossless,rcfg=self");
  const std::vector<Pixels> unchanged = of.next(5);
  EXPECT_EQ(shown[0], unchanged[0]);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_GT(largest_difference(shown[i], unchanged[i]), 1) << i;
}

/// What is planned while a stream runs holds it up.
TEST(FrameStream, OnlyTheFirstPlanMeasuresWhatIsNewUnlessAllAreTo) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  for (const NewWork later : {NewWork::kTakeOver, NewWork::kMeasure}) {
    FrameStream& stream = of.open({.steps = 2, .prompt = kPrompt, .new_work = later}, "lossless");
    const auto planned_for = [&] { return stream.session().program().target.new_work; };
    const StreamOptions first = stream.options();
    EXPECT_EQ(planned_for(), NewWork::kMeasure);
    StreamOptions other = first;
    other.steps = 3;
    other.new_work = NewWork::kTakeOver;
    stream.change(other);
    EXPECT_EQ(stream.plans(), 2);
    EXPECT_EQ(planned_for(), later);
    stream.change(first);
    EXPECT_EQ(planned_for(), NewWork::kMeasure) << "it is kept";
  }
}

TEST(FrameStream, APromptThatChangesAThousandTimesChangesNothingElse) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  FrameStream& stream = of.open({.prompt = kPrompt}, "lossless");
  static_cast<void>(of.next());
  const StreamOptions first = stream.options();
  const std::size_t bytes = of.backend().memory_use().total;
  for (int i = 0; i < 1000; ++i) {
    StreamOptions other = first;
    other.prompt = fmt::format("number {}", i % 100);
    stream.change(other);
  }
  stream.change(first);
  EXPECT_EQ(stream.plans(), 1);
  EXPECT_LE(of.backend().memory_use().total, bytes + (std::size_t{4} << 20)) << "the texts that are kept";
  const Pixels after = of.next();
  of.open({.prompt = kPrompt}, "lossless");
  EXPECT_EQ(after, of.next(2)[1]);
}

/// Keys and values of attention over the prompt, which are one product.
bool is_of_prompt(const Step& step) { return step.op == Op::kLinear && step.label.ends_with("attn2"); }
std::int64_t linears_of(const Session& session) {
  return std::ranges::count(session.program().steps, Op::kLinear, &Step::op);
}

/// What the prompt and the levels alone decide is made when they change, and what is shown is what it would be if each frame made it.
void expect_setup(DeviceKind device, const std::string& switches, int tolerance) {
  const std::string each_frame = SwitchSet::parse(switches).without("hoist").to_string();
  StreamOf of(kPipeline, device), alone(kPipeline, device);
  for (const char* more : {"", ",rcfg=initialize", ",stream-batch=2,rcfg=self", ",similarity=0.99"}) {
    SCOPED_TRACE(more);
    const bool is_batched = std::string(more).find("batch") != std::string::npos;
    const StreamOptions options{.steps = is_batched ? 2 : 1, .strength = 0.6, .prompt = kPrompt, .seed = 3};
    FrameStream& stream = of.open(options, switches + more);
    FrameStream& other = alone.open(options, each_frame + more);
    const Session& session = stream.session();
    ASSERT_NE(session.setup(), nullptr);
    EXPECT_EQ(other.session().setup(), nullptr);
    EXPECT_LT(linears_of(session), linears_of(other.session()));
    if (device == DeviceKind::kCpu) {  // on a GPU it is one product for all blocks
      EXPECT_TRUE(std::ranges::any_of(session.setup()->program().steps, is_of_prompt));
      EXPECT_TRUE(std::ranges::none_of(session.program().steps, is_of_prompt));
    }
    const std::int64_t before = session.setups();
    for (int change = 0; change < 3; ++change) {
      for (int i = 0; i < 3; ++i) EXPECT_LE(largest_difference(of.next(), alone.next()), tolerance) << change;
      EXPECT_EQ(session.setups(), before + change) << "once for each change";
      StreamOptions changed = stream.options();
      if (change == 0) changed.prompt = "a bowl of ramen";
      if (change == 1) changed.strength = 0.4;
      stream.change(changed);
      other.change(changed);
    }
  }
}

TEST(FrameStream, MakesOfAPromptOnceWhatIsOfThePromptAlone) { expect_setup(DeviceKind::kCpu, "lossless", 1); }

TEST(FrameStream, OfOneStepHasNoLoop) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  const Session& session = of.open({.prompt = kPrompt}, "lossless").session();
  EXPECT_EQ(session.program().graph.regions().size(), 1U);
  const auto is_row = [](const Step& step) { return step.op == Op::kRow; };
  EXPECT_TRUE(std::ranges::none_of(session.program().steps, is_row));
}

TEST(FrameStream, OtherStepsArePlannedOnceAndKept) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  FrameStream& stream = of.open({.prompt = kPrompt}, "lossless");
  static_cast<void>(of.next());
  StreamOptions other = stream.options();
  for (int round = 0; round < 2; ++round)
    for (const std::int64_t steps : {std::int64_t{2}, std::int64_t{1}}) {
      other.steps = steps;
      stream.change(other);
      EXPECT_EQ(stream.request().steps, steps);
      static_cast<void>(of.next());
    }
  EXPECT_EQ(stream.plans(), 2);
  other.steps = 0;
  other.strength = 2;
  EXPECT_THROW(stream.change(other), Error);
  EXPECT_EQ(stream.request().steps, 1);
}

/// What is not given is the model's own; 0 is a number like any other.
TEST(FrameStream, TakesZeroForZero) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  const auto shown = [&](const StreamOptions& options) {
    FrameStream& stream = of.open(options, "lossless,rcfg=self");
    return std::pair(stream.request(), of.next());
  };
  const auto [own, own_frame] = shown({.prompt = kPrompt});
  EXPECT_EQ(own.guidance_scale, 1.2);
  EXPECT_EQ(own.guidance_delta, 1);
  EXPECT_EQ(own.strength, 0.5);
  const auto [unguided, unguided_frame] = shown({.guidance_scale = 0, .prompt = kPrompt});
  EXPECT_EQ(unguided.guidance_scale, 0);
  EXPECT_NE(unguided_frame, own_frame);
  const auto [undelayed, delta_frame] = shown({.guidance_delta = 0, .prompt = kPrompt});
  EXPECT_EQ(undelayed.guidance_delta, 0);
  EXPECT_NE(delta_frame, own_frame);
  FrameStream& stream = of.open({.prompt = kPrompt}, "lossless,rcfg=self");
  StreamOptions changed = stream.options();
  changed.guidance_scale = 0;
  stream.change(changed);
  EXPECT_EQ(of.next(), unguided_frame) << "and while it runs";
}

TEST(FrameStream, RefusesWhatContradictsItself) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  const auto refusal = [&](const StreamOptions& options, const std::string& switches) {
    return error_of([&] { of.open(options, switches); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal({.steps = 3}, "stream-batch=2"), HasSubstr("a frame at each of 2 steps, but 3 were asked for"));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double strength : {1.5, 0.0, -1.0, kNan, 1e20})
    EXPECT_THAT(refusal({.strength = strength}, "lossless"), HasSubstr("expected more than 0 to 1")) << strength;
  for (const double scale : {-1.0, 101.0, kNan}) {
    EXPECT_THAT(refusal({.guidance_scale = scale}, "rcfg=self"), HasSubstr("expected 0 to 100")) << scale;
    EXPECT_THAT(refusal({.guidance_delta = scale}, "rcfg=self"), HasSubstr("expected 0 to 10")) << scale;
  }
  EXPECT_THAT(refusal({.guidance_delta = 0}, "lossless"), HasSubstr("rcfg, which is not on"));
  EXPECT_THAT(refusal({.negative_prompt = "x"}, "rcfg=self"), HasSubstr("rcfg=initialize"));
  EXPECT_THAT(refusal({.guidance_scale = 2}, "lossless"), HasSubstr("rcfg, which is not on"));
  EXPECT_THAT(refusal({}, "sampler=heun"), HasSubstr("heun calls it twice"));
  EXPECT_THAT(refusal({}, "similarity=2"), HasSubstr("expected a cosine"));
}

TEST(FrameStream, IsOneGraphThatNothingIsAllocatedFor) {
  StreamOf of(kPipeline, DeviceKind::kCpu);
  of.open({.prompt = kPrompt}, "lossless");
  static_cast<void>(of.next(2));
  const std::uint64_t before = of.backend().memory_use().allocations;
  static_cast<void>(of.next(20));
  EXPECT_EQ(of.backend().memory_use().allocations, before);
  EXPECT_EQ(of.stream().session().copied_bytes(), 0U) << "frames are bound";
}

constexpr const char* kNetwork = "live_stream/three-levels";
constexpr VideoFormat kSmallVideo{.width = 16, .height = 16, .rate = {30, 1}};

/// Frames of LiveStreamUNet as pipelines/streams/live_stream_frame.hpp has them, in f32.
std::vector<Pixels> plain_live_stream(StreamOf& of, std::int64_t steps, int count) {
  const SamplerTables sampler =
      make_sampler_tables(Sampler::kDdim, DiffusionSchedule{.rules = DiffusionRules::kDdim,
                                                            .prediction = Prediction::kV,
                                                            .spacing = TimestepSpacing::kTrailing}
                                              .schedule(steps));
  const Shape shape{1, 3, kSmallVideo.height, kSmallVideo.width};
  const Compiled compiled = compile(build_live_stream_frame(parse_live_stream_unet_config(of.network().config), shape,
                                                            sampler, of.network().params()),
                                    SwitchSet::parse("baseline"), of.backend().properties().target);
  Session session(compiled.program, of.weights(), of.backend());
  HostTensor noise(DType::kF32, shape);
  fill_normal(noise.as<float>(), 5, 0);
  set_live_stream_inputs(session, sampler, noise);
  std::vector<Pixels> shown;
  const std::int64_t pixels = std::int64_t{kSmallVideo.height} * kSmallVideo.width;
  for (int i = 0; i < count; ++i) {
    const Pixels frame = camera_frame(kSmallVideo, i);
    HostTensor image(DType::kF32, shape);
    for (std::int64_t k = 0; k < 3 * pixels; ++k)
      image.set(k % 3 * pixels + k / 3, frame[static_cast<std::size_t>(k)] / 127.5 - 1);
    if (i == 0) start_live_stream(session, image, {});
    session.set_input("frame", image);
    session.run();
    const HostTensor out = session.output("shown");
    Pixels bytes(frame.size());
    for (std::int64_t k = 0; k < 3 * pixels; ++k)
      bytes[static_cast<std::size_t>(k)] =
          static_cast<std::uint8_t>(std::nearbyint((out.at(k % 3 * pixels + k / 3) + 1) * 127.5));
    shown.push_back(std::move(bytes));
  }
  return shown;
}

void expect_live_stream(DeviceKind device, const std::string& switches, int tolerance) {
  StreamOf of(kNetwork, device, kSmallVideo);
  for (const std::int64_t steps : {std::int64_t{1}, std::int64_t{4}}) {
    const std::vector<Pixels> expected = plain_live_stream(of, steps, 6);
    of.open({.steps = steps, .seed = 5}, switches);
    for (int stream = 0; stream < 2; ++stream) {
      const std::vector<Pixels> shown = of.next(6);
      for (std::size_t i = 0; i < shown.size(); ++i)
        EXPECT_LE(largest_difference(shown[i], expected[i]), tolerance) << switches << ", frame " << i;
      of.open({.steps = steps, .seed = 5}, switches);
    }
  }
}

TEST(FrameStream, OfALiveStreamUNetRemembersTheFramesBefore) {
  expect_live_stream(DeviceKind::kCpu, "lossless", 1);
  expect_live_stream(DeviceKind::kCpu, "baseline", 1);
}

TEST(FrameStream, OfALiveStreamUNetDeclinesBatchesAndGuidance) {
  StreamOf of(kNetwork, DeviceKind::kCpu, kSmallVideo);
  const FrameStream& stream = of.open({}, "lossless,stream-batch=2,rcfg=self");
  std::vector<std::string> declined;
  for (const Declined& one : stream.compiled().declined) declined.push_back(one.switch_name);
  EXPECT_THAT(declined, testing::IsSupersetOf({"stream-batch", "rcfg"}));
  EXPECT_EQ(stream.delay(), 0);
}

/// With a filter, frames that are worked on are those of a stream of these alone.
void expect_filtered(DeviceKind device, int tolerance) {
  StreamOf of(kNetwork, device, kSmallVideo);
  FrameStream& stream = of.open({.seed = 5}, "lossless,similarity=0.9:2");
  const auto slot = stream.make_slot();
  std::vector<Pixels> worked_on, shown;
  int repeated = 0;
  for (int i = 0; i < 20; ++i) {
    const Pixels frame = camera_frame(kSmallVideo, i / 2);
    std::ranges::copy(frame, slot->in().begin());
    if (i == 0) stream.begin(slot->in());
    stream.submit(*slot);
    stream.wait(*slot);
    const Pixels out(slot->out().begin(), slot->out().end());
    if (slot->is_repeated()) {
      ASSERT_FALSE(shown.empty());
      EXPECT_EQ(out, shown.back()) << i;
      ++repeated;
    } else {
      worked_on.push_back(frame);
      shown.push_back(out);
    }
  }
  EXPECT_GT(repeated, 3);
  FrameStream& plain = of.open({.seed = 5}, "lossless");
  const auto other = plain.make_slot();
  for (std::size_t i = 0; i < worked_on.size(); ++i) {
    std::ranges::copy(worked_on[i], other->in().begin());
    if (i == 0) plain.begin(other->in());
    plain.submit(*other);
    plain.wait(*other);
    EXPECT_LE(largest_difference({other->out().begin(), other->out().end()}, shown[i]), tolerance) << i;
  }
}

TEST(FrameStream, SkippedFramesChangeNoState) { expect_filtered(DeviceKind::kCpu, 0); }

class GpuFrameStream : public GpuTest {};

TEST_F(GpuFrameStream, InBatchesIsTheSameLater) {
  expect_batches(DeviceKind::kCuda, "lossless", 2);
  expect_batches(DeviceKind::kCuda, "lossless,fp16,channels-last,graph", 6);
}
TEST_F(GpuFrameStream, MakesOfAPromptOnceWhatIsOfThePromptAlone) {
  expect_setup(DeviceKind::kCuda, "lossless", 2);
  expect_setup(DeviceKind::kCuda, "lossless,fp16", 2);
}
TEST_F(GpuFrameStream, OfALiveStreamUNetRemembersTheFramesBefore) {
  expect_live_stream(DeviceKind::kCuda, "lossless", 2);
  expect_live_stream(DeviceKind::kCuda, "lossless,channels-last,graph", 2);
}
TEST_F(GpuFrameStream, SkippedFramesChangeNoState) { expect_filtered(DeviceKind::kCuda, 0); }
TEST_F(GpuFrameStream, IsOneGraphThatNothingIsAllocatedFor) {
  StreamOf of(kPipeline, DeviceKind::kCuda);
  for (const char* more : {"", ",stream-batch=2", ",similarity=0.9,rcfg=self"}) {
    of.open({.prompt = kPrompt}, std::string("lossless,fp16,channels-last,graph") + more);
    static_cast<void>(of.next(2));
    const std::uint64_t before = of.backend().memory_use().allocations;
    const std::int64_t recordings = of.stream().session().recordings_made();
    static_cast<void>(of.next(20));
    EXPECT_EQ(of.backend().memory_use().allocations, before) << more;
    EXPECT_EQ(of.stream().session().recordings_made(), recordings) << more;
    EXPECT_EQ(of.stream().session().replays(), 1) << more;
    // With a filter what is shown is a state, of this frame or one before, and is copied to the caller's memory.
    const std::size_t shown = std::string(more).find("similarity") == std::string::npos ? 0 : of.next().size();
    EXPECT_EQ(of.stream().session().copied_bytes(), shown) << more;
  }
}

}  // namespace
}  // namespace headroom
