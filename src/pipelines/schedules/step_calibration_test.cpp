#include "pipelines/schedules/step_calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "pipelines/generator.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class StepCalibrationTest : public testing::Test {
 protected:
  StepCalibrationTest() {
    for (const char* name : {"config.json", "diffusion_pytorch_model.safetensors"})
      fs::copy(source_dir(kSourceDir) / "tests/goldens/flux/tiny-guidance" / name, folder_ / name);
    pipeline_ = open_pipeline(folder_.path().string());
  }

  static RequestOptions options(std::int64_t steps, std::string_view switches = "") {
    return {.images = 2,
            .token_rows = 2,
            .token_columns = 3,
            .text_tokens = 3,
            .steps = steps,
            .switches = SwitchSet::parse(switches)};
  }
  [[nodiscard]] Request request(std::int64_t steps, std::string_view switches = "") const {
    return pipeline_->resolve(options(steps, switches));
  }
  /// A calibration with artificial schedules, whose first K calls are computed.
  [[nodiscard]] StepCalibration made_up(std::int64_t steps) const {
    StepCalibration calibration{
        .request = calibrated_request(*pipeline_, request(steps)), .images = 4, .schedules = {}};
    for (std::int64_t computed = 1; computed < steps; ++computed)
      calibration.schedules.push_back({.digits = std::string(static_cast<std::size_t>(computed), '1') +
                                                 std::string(static_cast<std::size_t>(steps - computed), '0'),
                                       .error = 1.0 / static_cast<double>(computed)});
    return calibration;
  }
  [[nodiscard]] Compiled compile(std::int64_t steps, std::string_view switches) const {
    return compile_denoise(*pipeline_, request(steps, switches), SwitchSet::parse(switches),
                           backend_->properties().target);
  }
  [[nodiscard]] fs::path file() const { return folder_ / kCalibrationFile; }

  TempFolder folder_;
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  std::unique_ptr<Pipeline> pipeline_;
};

/// The notes of the pass, joined.
std::string note_of(const Compiled& compiled) {
  std::string notes;
  for (const PassRecord& pass : compiled.passes)
    for (const PassNote& note : pass.notes)
      if (pass.name == "meancache") notes += note.reason;
  return notes;
}

TEST_F(StepCalibrationTest, AreKeptByRequest) {
  EXPECT_EQ(read_calibrations(*pipeline_), std::nullopt);
  keep_calibration(*pipeline_, made_up(6));
  StepCalibration other = made_up(4);
  keep_calibration(*pipeline_, other);
  other.images = 9;
  keep_calibration(*pipeline_, other);  // replaces the one before
  const std::vector<StepCalibration> kept = read_calibrations(*pipeline_).value();
  ASSERT_EQ(kept.size(), 2);
  EXPECT_EQ(kept[0], made_up(6));
  EXPECT_EQ(kept[1], other);
}

TEST_F(StepCalibrationTest, OfTwoThatEndAtTheSameTimeNoneIsLost) {
  for (int run = 0; run < 20; ++run) {
    fs::remove(file());
    std::vector<std::jthread> threads;
    for (const std::int64_t steps : {4, 5, 6, 7})
      threads.emplace_back([this, steps] { keep_calibration(*pipeline_, made_up(steps)); });
    threads.clear();
    ASSERT_EQ(read_calibrations(*pipeline_).value().size(), 4U);
  }
}

TEST_F(StepCalibrationTest, TheirScheduleIsThatOfMeancache) {
  keep_calibration(*pipeline_, made_up(6));
  const Compiled compiled = compile(6, "arena,meancache=3");
  EXPECT_EQ(note_of(compiled), "the steps are those of meancache.json: 111000");
  EXPECT_EQ(compiled.applied, (std::vector<std::string>{"arena", "meancache=3"}));
  WeightStore weights(*backend_, pipeline_->components());
  Generator generator(*pipeline_, *backend_, weights, options(6, "arena,meancache=3"));
  static_cast<void>(generator.generate(make_image_requests(*pipeline_, 0, 2, 0)));
  EXPECT_EQ(generator.computed_steps(), (std::vector<bool>{true, true, true, false, false, false}));
}

TEST_F(StepCalibrationTest, WhereTheyDoNotFitStepsAreSpreadAndANoteSaysWhy) {
  EXPECT_THAT(note_of(compile(6, "meancache=3")), HasSubstr("there is no meancache.json for these weights"));
  keep_calibration(*pipeline_, made_up(6));
  EXPECT_THAT(note_of(compile(7, "meancache=3")),
              AllOf(HasSubstr("spread evenly: meancache.json is for 6 steps of euler, 2 x 3 tokens, guidance 3.5"),
                    HasSubstr("not for 7 steps of euler")));
  EXPECT_THAT(note_of(compile(6, "sampler=dpm++2m,meancache=3")), HasSubstr("not for 6 steps of dpm++2m"));
  EXPECT_THAT(note_of(compile(6, "sampler=euler:shift=1,meancache=3")), HasSubstr("not for 6 steps of euler:shift=1"));
  RequestOptions guided = options(6);
  guided.guidance_scale = 2;
  EXPECT_THAT(with_calibration(*pipeline_, pipeline_->resolve(guided), SwitchSet::parse("meancache=3")).note,
              HasSubstr("2 x 3 tokens, guidance 3.5, not for 6 steps of euler, 2 x 3 tokens, guidance 2"));
  RequestOptions larger = options(6);
  larger.token_rows = 4;
  EXPECT_THAT(with_calibration(*pipeline_, pipeline_->resolve(larger), SwitchSet::parse("meancache=3")).note,
              HasSubstr("not for 6 steps of euler, 4 x 3 tokens"));
  Request begun = request(6);
  begun.strength = 0.5;
  EXPECT_THAT(with_calibration(*pipeline_, begun, SwitchSet::parse("meancache=2")).note,
              HasSubstr("spread evenly: meancache.json is for requests without an image"));
  EXPECT_EQ(note_of(compile(6, "meancache=2:schedule=100001")), "") << "which it has already";
  EXPECT_EQ(note_of(compile(6, "arena")), "");
  EXPECT_EQ(note_of(compile(6, "meancache=6")), "") << "which declines";
}

TEST_F(StepCalibrationTest, OfRandomWeightsThereAreNone) {
  pipeline_ = open_pipeline(folder_.path().string(), {.random_seed = 0});
  EXPECT_EQ(note_of(compile(6, "meancache=3")), "the steps are spread evenly: random weights have no calibration");
}

/// As after a change of the scheduler's configuration.
TEST_F(StepCalibrationTest, OfOtherNoiseLevelsAreNotUsed) {
  StepCalibration other = made_up(6);
  other.request.timesteps[3] += 1;
  keep_calibration(*pipeline_, other);
  EXPECT_THAT(note_of(compile(6, "meancache=3")),
              AllOf(HasSubstr("spread evenly"), HasSubstr("other noise levels than the scheduler's configuration")));
  keep_calibration(*pipeline_, made_up(6));
  EXPECT_THAT(note_of(compile(6, "meancache=3")), HasSubstr("those of meancache.json")) << "of two the one that fits";
}

TEST_F(StepCalibrationTest, OfOtherWeightsAreNotUsed) {
  keep_calibration(*pipeline_, made_up(6));
  pipeline_.reset();
  const fs::path weights = folder_ / "diffusion_pytorch_model.safetensors";
  std::string bytes = read_file(weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomically(weights, bytes);
  pipeline_ = open_pipeline(folder_.path().string());
  EXPECT_EQ(read_calibrations(*pipeline_), std::nullopt);
  EXPECT_THAT(note_of(compile(6, "meancache=3")), HasSubstr("spread evenly: there is no meancache.json for these"));
  keep_calibration(*pipeline_, made_up(4));
  EXPECT_EQ(read_calibrations(*pipeline_).value().size(), 1) << "of the others nothing is left";
}

TEST_F(StepCalibrationTest, WhatIsNoSuchFileIsRefusedInASentence) {
  keep_calibration(*pipeline_, made_up(3));
  const nlohmann::json good = read_json(file());
  const auto refusal = [&](const std::function<void(nlohmann::json&)>& spoil) {
    nlohmann::json bad = good;
    spoil(bad);
    write_json(file(), bad);
    return headroom::error_of([&] { static_cast<void>(compile(3, "meancache=2")); });
  };
  EXPECT_EQ(refusal([](auto&) {}), "(no error)");
  EXPECT_THAT(refusal([](auto& j) { j["schema"] = "headroom.result/1"; }), HasSubstr("expected headroom.meancache/1"));
  EXPECT_THAT(refusal([](auto& j) { j.erase("weights"); }), HasSubstr("weights"));
  EXPECT_THAT(refusal([](auto& j) { j["calibrations"] = 3; }), HasSubstr("calibrations"));
  EXPECT_THAT(refusal([](auto& j) { j["calibrations"][0] = 3; }), HasSubstr("meancache.json"));
  EXPECT_THAT(refusal([](auto& j) { j["calibrations"][0].erase("steps"); }), HasSubstr("steps"));
  EXPECT_THAT(refusal([](auto& j) { j["calibrations"][0]["timesteps"][1] = "x"; }), HasSubstr("no number"));
  EXPECT_THAT(refusal([](auto& j) { j["calibrations"][0]["errors"].push_back(1); }), HasSubstr("3 errors"));
  for (const char* const digits : {"11", "1101", "011", "112", "111"})
    EXPECT_THAT(refusal([&](auto& j) { j["calibrations"][0]["schedules"][1] = digits; }),
                HasSubstr(fmt::format("'{}', expected 3 digits", digits)));
  EXPECT_THAT(refusal([&](auto& j) { j["calibrations"][0]["schedules"][0] = nullptr; }), HasSubstr("'null', expected"));
  write_file_atomically(file(), "{\"schema\": ");
  EXPECT_THAT(headroom::error_of([&] { static_cast<void>(compile(3, "meancache=2")); }), HasSubstr("meancache.json"));
  EXPECT_THAT(headroom::error_of([&] { keep_calibration(*pipeline_, made_up(3)); }), HasSubstr("meancache.json"))
      << "what cannot be read is not written over";
  EXPECT_NO_THROW(static_cast<void>(compile(3, "arena"))) << "nor is it looked at where nothing asks";
}

}  // namespace
}  // namespace headroom
