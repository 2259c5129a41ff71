#include "base/switches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The message of the usage Error that parsing throws; "(no usage error)" if it throws none or one with another
/// exit code.
std::string usage_error(std::string_view list) {
  try {
    static_cast<void>(SwitchSet::parse(list));
  } catch (const Error& error) {
    if (error.code() == ExitCode::kUsage) return error.what();
  }
  return "(no usage error)";
}

TEST(SwitchTable, NamesAreUniqueAndDescribed) {
  std::set<std::string_view> names;
  for (const SwitchInfo& info : all_switches()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.description.empty()) << info.name;
  }
  for (const Preset& preset : all_presets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    EXPECT_FALSE(preset.description.empty()) << preset.name;
  }
}

TEST(SwitchTable, LosslessIsEveryExactSwitchWithoutAnArgument) {
  const SwitchSet lossless = SwitchSet::parse("lossless");
  for (const SwitchInfo& info : all_switches())
    EXPECT_EQ(lossless.has(info.name), info.exact && info.value.empty() && info.name != "packed") << info.name;
}

TEST(SwitchSet, NothingIsTheBaseline) {
  const SwitchSet none = SwitchSet::parse("");
  EXPECT_TRUE(none.empty());
  EXPECT_THAT(none.names(), IsEmpty());
  EXPECT_EQ(none.to_string(), "baseline");
  EXPECT_EQ(SwitchSet::parse("baseline").to_string(), "baseline");
}

TEST(SwitchSet, ComesInPipelineOrderWhateverTheOrderGiven) {
  const SwitchSet set = SwitchSet::parse("steps=8,bf16,arena,fuse");
  EXPECT_THAT(set.names(), ElementsAre("arena", "fuse", "bf16", "steps=8"));
  EXPECT_EQ(set.to_string(), "arena,fuse,bf16,steps=8");
  EXPECT_EQ(SwitchSet::parse(set.to_string()).to_string(), set.to_string());
}

TEST(SwitchSet, KnowsItsMembersAndTheirArguments) {
  const SwitchSet set = SwitchSet::parse("fuse,steps=8");
  EXPECT_FALSE(set.empty());
  EXPECT_TRUE(set.has("fuse"));
  EXPECT_TRUE(set.has("steps"));
  EXPECT_FALSE(set.has("bf16"));
  EXPECT_FALSE(set.has("fu"));
  EXPECT_EQ(set.number("steps"), 8);
  EXPECT_EQ(SwitchSet::parse("fuse").number("steps"), std::nullopt);
}

TEST(SwitchSet, LeavesOutWhatAPresetBringsAlongAndCannotPay) {
  constexpr Target kAmx{.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAmx};
  constexpr Target kVnni{.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAvx512Vnni};
  constexpr Target kGpu{.device = DeviceKind::kCuda, .compute_capability = 90};
  const auto on = [](const char* list, const Target& target) {
    return SwitchSet::parse(list).for_target(target).to_string();
  };
  EXPECT_EQ(on("lossless", kAmx), "arena,flash,fuse,hoist,channels-last,tile");
  EXPECT_EQ(on("lossless", kGpu), "arena,flash,fuse,hoist,align,channels-last,streams,graph");
  EXPECT_EQ(on("fast", kAmx), "arena,flash,fuse,hoist,bf16,int8,channels-last,tile");
  EXPECT_EQ(on("fast", kGpu), "arena,flash,fuse,hoist,bf16,fp8,align,channels-last,streams,graph");
  EXPECT_EQ(on("fast", kVnni), "arena,flash,fuse,hoist,int8,channels-last,tile") << "bf16 would be emulated";
  EXPECT_EQ(on("fast,bf16", kVnni), "arena,flash,fuse,hoist,bf16,int8,channels-last,tile") << "it was named itself";
  EXPECT_EQ(on("fp8,arena", kAmx), "arena,fp8") << "it was named itself, and is to decline";
  EXPECT_EQ(on("lossless,graph", kAmx), "arena,flash,fuse,hoist,channels-last,tile,graph");
  EXPECT_EQ(on("graph,lossless", kAmx), "arena,flash,fuse,hoist,channels-last,tile,graph");
}

TEST(SwitchSet, MixesPresetsAndSwitches) {
  EXPECT_EQ(SwitchSet::parse("lossless").to_string(), "arena,flash,fuse,hoist,align,channels-last,tile,streams,graph");
  EXPECT_EQ(SwitchSet::parse("fast").to_string(),
            "arena,flash,fuse,hoist,bf16,int8,fp8,align,channels-last,tile,streams,graph");
  EXPECT_EQ(SwitchSet::parse("steps=4,lossless,baseline").to_string(),
            "arena,flash,fuse,hoist,align,channels-last,tile,streams,graph,steps=4");
  EXPECT_EQ(SwitchSet::parse("fast,bf16,lossless").to_string(),
            "arena,flash,fuse,hoist,bf16,int8,fp8,align,channels-last,tile,streams,graph");
}

TEST(SwitchSet, TakesBlanksAroundItems) {
  EXPECT_EQ(SwitchSet::parse(" flash , fuse,\tsteps=4 ").to_string(), "flash,fuse,steps=4");
  EXPECT_EQ(SwitchSet::parse("fast, steps=4").to_string(), SwitchSet::parse("fast,steps=4").to_string());
  EXPECT_TRUE(SwitchSet::parse(" ").empty());
}

TEST(SwitchSet, AcceptsARepetitionAndRefusesAConflict) {
  EXPECT_EQ(SwitchSet::parse("fuse,fuse,steps=4,steps=4").to_string(), "fuse,steps=4");
  EXPECT_EQ(usage_error("steps=4,steps=8"),
            "switch steps is given twice with different arguments: steps=4 and steps=8");
}

TEST(SwitchSet, TakesAnArgumentThatMayBeLeftOut) {
  EXPECT_EQ(SwitchSet::parse("fp8").argument("fp8"), "");
  EXPECT_EQ(SwitchSet::parse("fp8=exact").to_string(), "fp8=exact");
  EXPECT_EQ(usage_error("fp8="), "switch fp8: expected fp8=[SUMS]");
  EXPECT_EQ(usage_error("fp8,fp8=exact"), "switch fp8 is given twice with different arguments: fp8= and fp8=exact");
}

TEST(SwitchSet, TakesANamedArgumentBeforeThatOfAPreset) {
  EXPECT_EQ(SwitchSet::parse("fast,fp8=exact").argument("fp8"), "exact");
  EXPECT_EQ(SwitchSet::parse("fp8=exact,fast").argument("fp8"), "exact");
  EXPECT_EQ(SwitchSet::parse("fast").with(SwitchSet::parse("fp8=exact")).argument("fp8"), "exact");
  const Target cpu{.device = DeviceKind::kCpu};
  EXPECT_TRUE(SwitchSet::parse("fast,fp8=exact").for_target(cpu).has("fp8")) << "it is named, and declines";
}

TEST(SwitchSet, RefusesUnknownNamesWithThoseThatAreNearOrAll) {
  EXPECT_EQ(usage_error("fuse,flsh"), "unknown switch 'flsh'; did you mean 'flash'?");
  EXPECT_EQ(usage_error("setps=4"), "unknown switch 'setps=4'; did you mean 'steps'?");
  EXPECT_EQ(usage_error("losless"), "unknown switch 'losless'; did you mean 'lossless'?");
  EXPECT_THAT(usage_error("fuse,warp"),
              AllOf(HasSubstr("unknown switch 'warp': there are "),
                    HasSubstr("arena, flash, cp, fuse, hoist, fp16, bf16, tf32, int8, fp8, "
                              "attn8, align, channels-last, packed, tile, streams, graph, sampler, "
                              "steps"),
                    HasSubstr("baseline, lossless, fast")));
  for (const std::string_view list : {"Fuse", "fast=1", "=4", "=", "fuse;bf16", "fu se"})
    EXPECT_THAT(usage_error(list), HasSubstr("unknown switch")) << list;
  EXPECT_EQ(usage_error("fuse,,bf16"), "switches: item 2 of 'fuse,,bf16' is empty");
  for (const std::string_view list : {"fuse,", ",fuse", "fuse, ,bf16", ","})
    EXPECT_THAT(usage_error(list), HasSubstr("is empty")) << list;
}

TEST(SwitchSet, RefusesMissingUnwantedAndAbsurdArguments) {
  EXPECT_EQ(usage_error("steps"), "switch steps needs an argument: steps=N");
  for (const std::string_view list : {"fuse=1", "fuse=", "bf16=true"})
    EXPECT_THAT(usage_error(list), HasSubstr("takes no argument")) << list;
  for (const std::string_view list : {"steps=", "steps=0", "steps=-4", "steps=4.5", "steps=4x", "steps= 4", "steps=+4",
                                      "steps=10001", "steps=99999999999999999999", "steps=4=4"})
    EXPECT_THAT(usage_error(list), HasSubstr("expected a whole number from 1 to 10000")) << list;
  EXPECT_EQ(SwitchSet::parse("steps=1").number("steps"), 1);
  EXPECT_EQ(SwitchSet::parse("steps=10000").number("steps"), 10000);
}

TEST(SwitchSet, SinglesAreItsMembersOneByOne) {
  std::vector<std::string> singles;
  for (const SwitchSet& single : SwitchSet::parse("steps=8,fast").singles()) singles.push_back(single.to_string());
  EXPECT_THAT(singles, ElementsAre("arena", "flash", "fuse", "hoist", "bf16", "int8", "fp8", "align", "channels-last",
                                   "tile", "streams", "graph", "steps=8"));
  EXPECT_THAT(SwitchSet().singles(), IsEmpty());
}

TEST(SwitchSet, WithIsTheUnionAndLeavesBothAsTheyWere) {
  const SwitchSet a = SwitchSet::parse("bf16,steps=8");
  const SwitchSet b = SwitchSet::parse("arena,steps=8");
  EXPECT_EQ(a.with(b).to_string(), "arena,bf16,steps=8");
  EXPECT_EQ(b.with(a).to_string(), "arena,bf16,steps=8");
  EXPECT_EQ(a.to_string(), "bf16,steps=8");
  EXPECT_EQ(a.with({}).to_string(), a.to_string());
  EXPECT_THAT(error_of([&] { static_cast<void>(a.with(SwitchSet::parse("steps=4"))); }),
              HasSubstr("steps=8 and steps=4"));
}

TEST(SwitchSet, WithoutTakesOneOut) {
  const SwitchSet set = SwitchSet::parse("arena,bf16,steps=8");
  EXPECT_EQ(set.without("steps").to_string(), "arena,bf16");
  EXPECT_EQ(set.without("fuse").to_string(), set.to_string());
}

TEST(SwitchRequest, SetsAutoApartFromWhatIsFixed) {
  const SwitchRequest request = SwitchRequest::parse("steps=8,auto,bf16");
  EXPECT_TRUE(request.automatic);
  EXPECT_EQ(request.fixed.to_string(), "bf16,steps=8");
  EXPECT_THAT(request.names(), ElementsAre("auto", "bf16", "steps=8"));
  EXPECT_TRUE(SwitchRequest::parse("auto").fixed.empty());
  EXPECT_FALSE(SwitchRequest::parse("lossless").automatic);
  for (const char* list : {"auto,,fuse", "auto,", ",auto"})
    EXPECT_THAT(error_of([&] { static_cast<void>(SwitchRequest::parse(list)); }), HasSubstr("is empty"));
  EXPECT_THAT(error_of([] { static_cast<void>(SwitchRequest::parse("auto=3")); }),
              HasSubstr("unknown switch 'auto=3'"));
}

TEST(SwitchSet, IsNotAutoByItself) { EXPECT_THAT(usage_error("auto"), HasSubstr("not available here")); }

}  // namespace
}  // namespace headroom
