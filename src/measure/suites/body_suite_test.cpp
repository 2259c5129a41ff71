#include "measure/suites/body_suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/error.hpp"
#include "ir/op_definition.hpp"
#include "measure/suites/kernel_suite.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

TEST(BodySuite, HasFourteenBodiesInTwoDtypesAtThreeSizes) {
  std::map<std::string, int> cases_of;
  std::set<std::string> names;
  for (const BodyCase& one : list_body_cases()) {
    ++cases_of[one.body];
    names.insert(one.name);
    EXPECT_EQ(one.inputs.size(), one.graph.values_of(ValueKind::kInput).size()) << one.name;
  }
  EXPECT_EQ(cases_of.size(), 14U);
  EXPECT_THAT(cases_of, testing::Each(testing::Field(&std::pair<const std::string, int>::second, 6)));
  EXPECT_EQ(names.size(), 14U * 6U);
  EXPECT_TRUE(names.contains("gate_residual_norm_quantize bf16 medium 1x4608x3072"));
}

TEST(BodySuite, LargeOnesAreNoLessThanAQuarterGibibyte) {
  for (const BodyCase& one : list_body_cases()) {
    std::size_t bytes = 0;
    for (const ValueId input : one.graph.values_of(ValueKind::kInput)) bytes += one.graph.type(input).bytes();
    for (const Output& output : one.graph.outputs()) bytes += one.graph.type(output.value).bytes();
    const bool is_large = one.name.find(" large ") != std::string::npos;
    EXPECT_TRUE(!is_large || bytes >= std::size_t{256} << 20) << one.name;
  }
}

TEST(BodySuite, FusionMakesThemOneLaunch) {
  // Views need no launch. Neither do a transpose of an image stored channels-last, nor one of heads whose rows are
  // read in place.
  for (const BodyCase& one : list_body_cases()) {
    Graph graph = one.graph;
    static_cast<void>(optimize(graph, SwitchSet::parse("arena,fuse"), kGeneratingGpu, {.disabled = {}, .verify = true}));
    const std::set<std::string> are_turned = {"group_norm_silu", "upsample_add", "rms_norm_rope_heads"};
    const auto launches = std::ranges::count_if(graph.nodes(), [&](const Node& node) {
      return node.op != Op::kReshape && !(are_turned.contains(one.body) && node.op == Op::kTranspose);
    });
    EXPECT_EQ(launches, 1) << one.name;
  }
}

TEST(BodySuite, TimesABodyAgainstItsBytesOrItsExponentials) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  EXPECT_THROW((void)bench_bodies(*backend, {.filter = "no such body"}), Error);
  const ResultFile file = bench_bodies(*backend, {.filter = "^silu_mul f32 small", .max_seconds = 0.05, .rounds = 2});
  ASSERT_EQ(file.results.size(), 2U);
  const Result& result = file.results[1];
  EXPECT_EQ(result.subject.name, "silu_mul");
  EXPECT_EQ(result.subject.request.at("inputs"), nlohmann::json({"f32[5440, 384]", "f32[5440, 384]"}));
  EXPECT_EQ(result.subject.request.at("outputs"), nlohmann::json({"f32[5440, 384]"}));
  EXPECT_THAT(result.floor.value().of, testing::AnyOf("copy", "exp"));
  EXPECT_EQ(result.configuration.asked, (std::vector<std::string>{"arena", "fuse"}));
  EXPECT_EQ(series_of(result, "floor").process.back(), 1);
  EXPECT_THAT(to_kernel_table(file).text(), HasSubstr("silu_mul f32 small 5440x384"));
  EXPECT_NO_THROW((void)to_json(file));
}

}  // namespace
}  // namespace headroom
