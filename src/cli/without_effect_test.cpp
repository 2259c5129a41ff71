#include "cli/without_effect.hpp"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

/// The report about declined switches, or the error.
std::string declined_report(const SwitchList& switches, bool is_quiet, const std::vector<Declined>& declined) {
  const Log log(is_quiet);
  CaptureStderr();
  std::string error;
  try {
    WithoutEffect(log, switches).say(declined);
  } catch (const Error& thrown) {
    error = std::string("error: ") + thrown.what();
  }
  return GetCapturedStderr() + error;
}

const std::vector<Declined> kFp8 = {{.switch_name = "fp8", .reason = "it is for GPUs"}};

TEST(WithoutEffect, QuietLeavesWhatWasNamed) {
  const SwitchList named{.list = "fast, fp8=exact", .is_given = true};
  EXPECT_EQ(declined_report(named, false, kFp8), "warning: switch fp8 declined: it is for GPUs\n");
  EXPECT_EQ(declined_report(named, true, kFp8), "warning: switch fp8 declined: it is for GPUs\n");
}

TEST(WithoutEffect, APresetIsANoteAndTheCommandsOwnIsSilent) {
  EXPECT_EQ(declined_report({.list = "fast", .is_given = true}, false, kFp8), "switch fp8 declined: it is for GPUs\n");
  EXPECT_EQ(declined_report({.list = "fast", .is_given = true}, true, kFp8), "");
  EXPECT_EQ(declined_report({.list = "fp8", .is_given = false}, false, kFp8), "");
}

TEST(WithoutEffect, StrictIsAnErrorForWhatWasNamedAlone) {
  EXPECT_EQ(declined_report({.list = "fp8", .is_given = true, .is_strict = true}, true, kFp8),
            "error: --strict: switch fp8 declined: it is for GPUs");
  EXPECT_EQ(declined_report({.list = "fast", .is_given = true, .is_strict = true}, true, kFp8), "");
  const Log log;
  const SwitchList strict{.list = "lossless", .is_strict = true};
  const std::vector<IdleOption> idle = {{"true_cfg_scale", "it reads no text"}, {"steps", "steps=2 takes its place"}};
  EXPECT_EQ(
      error_of([&] { WithoutEffect(log, strict).say(idle); }),
      "--strict: --true-cfg-scale changes nothing: it reads no text; --steps changes nothing: steps=2 takes its place");
}

Result rung(std::vector<std::string> applied, std::vector<DeclinedSwitch> declined) {
  Result result;
  result.name = "rung";
  result.subject.name = "tiny-dit";
  result.configuration.applied = std::move(applied);
  result.configuration.declined = std::move(declined);
  return result;
}

ResultFile file_of(std::vector<Result> results) {
  return {.created = {}, .machine = {}, .plans = {}, .results = std::move(results)};
}

TEST(WithoutEffect, OnALadderASwitchCountsThatNoRungApplied) {
  const Log log(/*quiet=*/true);
  const SwitchList strict{.list = "arena,tile", .is_given = true, .is_strict = true};
  const Result alone = rung({}, {{"tile", "it needs arena"}});
  EXPECT_NO_THROW(WithoutEffect(log, strict).say(file_of({alone, rung({"arena", "tile"}, {})})));
  EXPECT_THAT(error_of([&] { WithoutEffect(log, strict).say(file_of({alone})); }),
              HasSubstr("--strict: rung: switch tile declined: it needs arena"));
}

TEST(WithoutEffect, AnArgumentDoesNotHideASwitchInResults) {
  const Log log(/*quiet=*/true);
  const SwitchList strict{.list = "arena,steps=8", .is_given = true, .is_strict = true};
  const Result alone = rung({"arena"}, {{"steps=8", "there is no loop"}});
  EXPECT_THAT(error_of([&] { WithoutEffect(log, strict).say(file_of({alone})); }),
              HasSubstr("rung: switch steps=8 declined: there is no loop"));
  EXPECT_NO_THROW(WithoutEffect(log, strict).say(file_of({alone, rung({"steps=8"}, {})})));
}

TEST(WithoutEffect, ResultsHaveTheNamesOfTables) {
  Result preset = rung({}, {{"fp8", "it is for GPUs"}});
  preset.configuration.device = "cpu";
  preset.configuration.asked = SwitchSet::parse("lossless,fp8").for_target({.device = DeviceKind::kCpu}).names();
  preset.name = fmt::format("{}", fmt::join(preset.configuration.asked, ","));
  CaptureStderr();
  WithoutEffect(Log(), {.list = "lossless,fp8", .is_given = true}).say(file_of({preset}));
  EXPECT_EQ(GetCapturedStderr(), "warning: lossless+fp8: switch fp8 declined: it is for GPUs\n");
}

}  // namespace
}  // namespace headroom
