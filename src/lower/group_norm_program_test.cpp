#include "lower/group_norm_program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// The program of a body over images a and b, a per-channel vector t and a gain. `before` are the statements before
/// the norm, `x` its input.
std::variant<GroupNormProgram, std::string> program_of(std::string_view before, std::string_view x, int groups = 3,
                                                       std::string_view layout = " channels_last") {
  return group_norm_program_of(parse_graph(fmt::format(R"(graph g {{
    input %a: bf16[2, 8, 4, 4]{3}
    input %b: bf16[2, 16, 4, 4]{3}
    input %t: f32[1, 24, 1, 1]
    input %gain: bf16[24]
    %0: f32[2, 8, 4, 4]{3} = cast(%a) {{dtype = f32}}
    %1: f32[2, 16, 4, 4]{3} = cast(%b) {{dtype = f32}}
    %2: f32[24] = cast(%gain) {{dtype = f32}}
    {0}
    %8: f32[2, 24, 4, 4]{3} = group_norm({1}, %2) {{epilogue = silu(sum), eps = 0.5, groups = {2}}}
    %9: bf16[2, 24, 4, 4]{3} = cast(%8) {{dtype = bf16}}
    output y = %9
  }})",
                                                       before, x, groups, layout)));
}
constexpr std::string_view kWhole = R"(%3: f32[2, 24, 4, 4] channels_last = concat(%0, %1) {axis = 1}
    %4: f32[2, 24, 4, 4] channels_last = add(%t, %3))";

TEST(GroupNormProgram, NamesPartsShiftAndGains) {
  const auto found = program_of(kWhole, "%4");
  const auto* program = std::get_if<GroupNormProgram>(&found);
  ASSERT_NE(program, nullptr) << std::get<std::string>(found);
  EXPECT_EQ(program->parts, (std::vector{0, 1}));
  EXPECT_EQ(program->shift, 2);
  EXPECT_EQ(program->weight, 3);
  EXPECT_EQ(program->bias, -1);
  EXPECT_EQ(program->groups, 3);
  EXPECT_EQ(program->eps, 0.5);
  EXPECT_EQ(program->activation, Activation::kSilu);
}

TEST(GroupNormProgram, NamesWhatScalesAndOffsetsEachChannel) {
  const auto found = group_norm_program_of(parse_graph(R"(graph g {
    input %x: f32[2, 24, 4, 4] channels_last
    input %scale: f32[2, 24, 1, 1]
    input %offset: f32[2, 24, 1, 1]
    %0: f32[2, 24, 4, 4] channels_last = group_norm(%x) {eps = 1e-05, groups = 3}
    %1: f32[2, 24, 1, 1] = add_scalar(%scale) {value = 1}
    %2: f32[2, 24, 4, 4] channels_last = mul(%1, %0)
    %3: f32[2, 24, 4, 4] channels_last = add(%2, %offset)
    %4: f32[2, 24, 4, 4] channels_last = silu(%3)
    output y = %4
  })"));
  const auto* program = std::get_if<GroupNormProgram>(&found);
  ASSERT_NE(program, nullptr) << std::get<std::string>(found);
  EXPECT_EQ(program->parts, std::vector{0});
  EXPECT_EQ(program->scale, 1);
  EXPECT_EQ(program->offset, 2);
  EXPECT_EQ(program->more, 1);
  EXPECT_EQ(program->activation, Activation::kSilu);
}

TEST(GroupNormProgram, MayGiveWhatItIsOfAsWell) {
  const auto found = [](std::string_view second) {
    return group_norm_program_of(parse_graph(fmt::format(R"(graph g {{
      input %a: bf16[2, 8, 4, 4] channels_last
      input %b: bf16[2, 16, 4, 4] channels_last
      %0: f32[2, 8, 4, 4] channels_last = cast(%a) {{dtype = f32}}
      %1: f32[2, 16, 4, 4] channels_last = cast(%b) {{dtype = f32}}
      %2: f32[2, 24, 4, 4] channels_last = concat(%0, %1) {{axis = 1}}
      %3: f32[2, 24, 4, 4] channels_last = group_norm(%2) {{eps = 0.5, groups = 3}}
      %4: bf16[2, 24, 4, 4] channels_last = cast(%3) {{dtype = bf16}}
      %5: bf16[2, 24, 4, 4] channels_last = cast({}) {{dtype = bf16}}
      output y = %4
      output z = %5
    }})",
                                                         second)));
  };
  ASSERT_TRUE(std::holds_alternative<GroupNormProgram>(found("%2")));
  EXPECT_TRUE(std::get<GroupNormProgram>(found("%2")).makes_whole);
  EXPECT_TRUE(std::holds_alternative<std::string>(found("%3")));
}

TEST(GroupNormProgram, SaysWhyABodyHasNone) {
  const auto reason = [](const std::variant<GroupNormProgram, std::string>& found) {
    return std::holds_alternative<std::string>(found) ? std::get<std::string>(found) : "";
  };
  const std::string joined = "%3: f32[2, 24, 4, 4] channels_last = concat(%0, %1) {axis = 1}\n    ";
  EXPECT_THAT(reason(program_of(joined + "%4: f32[2, 24, 4, 4] channels_last = silu(%3)", "%4")),
              HasSubstr("what is computed is not fused"));
  EXPECT_THAT(reason(program_of(joined + "%4: f32[2, 24, 4, 4] channels_last = add(%3, %3)", "%4")),
              HasSubstr("with an operand that is not a per-channel vector"));
  EXPECT_THAT(reason(program_of(kWhole, "%4", 24)), HasSubstr("groups of an odd number of channels"));
  EXPECT_THAT(reason(program_of("%3: f32[2, 24, 4, 4] = concat(%0, %1) {axis = 1}", "%3", 3, "")),
              HasSubstr("anything but channels-last images"));
}

TEST(FitsPacks, TakesPairsOfChannelsInWholePacks) {
  EXPECT_TRUE(fits_packs(10, 320, 2));
  EXPECT_TRUE(fits_packs(2, 128, 2));
  EXPECT_TRUE(fits_packs(960, 1920, 2));
  EXPECT_FALSE(fits_packs(5, 160, 2));  // odd groups
  EXPECT_FALSE(fits_packs(10, 36, 2));  // the last pack is half full
  EXPECT_EQ(pairs_of_run(10, 2), 20);
  EXPECT_EQ(pairs_of_run(964, 2), 964);  // until groups and packs end together
}

}  // namespace
}  // namespace headroom
