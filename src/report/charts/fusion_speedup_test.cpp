#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Adds a kernel and its plain ops, named as by `bench kernels`.
void add_fused_pair(ResultFile& file, const std::string& op, std::vector<double> fused_ms,
                    std::vector<double> plain_ms) {
  test::add_kernel(file, op, op + " f32", "f32", "vector", 1e6, 1e6, std::move(fused_ms));
  file.results.back().subject.request = {{"inputs", json::array({op})}};
  test::add_kernel(file, op, op + " f32, unfused", "f32", "vector", 1e6, 1e6, std::move(plain_ms));
  file.results.back().subject.request = {{"form", "apart"}, {"inputs", json::array({op})}};
}

TEST(FusionOfKernels, DrawsFactorsWithIntervals) {
  ResultFile file = test::make_file({});
  add_fused_pair(file, "norm_modulate", {9, 10, 10, 10, 10, 11}, {19, 20, 20, 20, 20, 21});
  add_fused_pair(file, "linear", {9, 10, 10, 10, 10, 11}, {9, 10, 10, 10, 10, 11});
  add_fused_pair(file, "attention", {10, 10, 10}, {20, 20, 20});
  const Drawn drawn = charts::fusion_speedup(test::make_dataset({file}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("norm_modulate f32", "linear f32"))
      << "attention has a chart of its own";
  const json& fused = option["series"][0]["data"][0];
  EXPECT_EQ(fused["value"][0], 2.0);
  EXPECT_EQ(test::role_of_item(fused), "green");
  EXPECT_EQ(test::role_of_item(option["series"][0]["data"][1]), "base") << "its interval holds 1";
  EXPECT_THAT(option["series"][1]["data"][0]["text"].get<std::string>(), HasSubstr("2.00x ["));
  EXPECT_THAT(option["series"][1]["data"][0]["text"].get<std::string>(), HasSubstr("10.0 ms, unfused 20.0 ms"));
  EXPECT_EQ(test::tip_text(fused, "trials"), "6 and 6");
  EXPECT_THAT(option["series"][2]["data"], SizeIs(2));
  EXPECT_THAT(drawn.charts.front().notes, Contains("n = 6 launches of each or more."));
}

TEST(FusionOfKernels, HoldsOnlyKernelsOfOneFileAgainstEachOther) {
  ResultFile file = test::make_file({});
  add_fused_pair(file, "linear", {10, 10}, {20, 20});
  ResultFile fused = file, plain = file;
  fused.results.pop_back();
  plain.results.erase(plain.results.begin());
  const Drawn drawn = charts::fusion_speedup(test::make_dataset({fused, plain}));
  EXPECT_THAT(drawn.charts, IsEmpty());
  EXPECT_THAT(drawn.left_out, HasSubstr("headroom bench kernels --filter gelu_tanh"));
}

}  // namespace
}  // namespace headroom
