// `headroom conformance`: the table, the cases of one op, JSON, and an op that does not exist.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/text/json.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class ConformanceCommandTest : public ProgramTest {
 protected:
  [[nodiscard]] Outcome conformance(const std::string& arguments) const {
    return headroom("conformance --device cpu -q " + arguments);
  }
};

TEST_F(ConformanceCommandTest, ListsTheCasesOfOneOpOneByOne) {
  const Outcome outcome = conformance("--op relu");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("relu +f32 +row_major +runs +odd extents .*highway\\.relu"),
                                 ContainsRegex("relu +f32 +channels_last +runs +channels last "),
                                 ContainsRegex("relu +f16 .*lacks .*highway\\.relu: stores f32 or bf16, not f16"),
                                 HasSubstr("6 cases: 4 run, 0 differ, 2 lack a kernel\n")));
}

TEST_F(ConformanceCommandTest, WritesEveryCaseAsJson) {
  const Outcome outcome = conformance("--op softmax --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json all = parse_json(outcome.out, "the output");
  EXPECT_EQ(all["device"], "cpu");
  EXPECT_EQ(all["differs"], 0);
  EXPECT_EQ(all["runs"].get<int>() + all["lacks"].get<int>(), all["cases"].size());
  for (const nlohmann::json& one : all["cases"]) {
    EXPECT_EQ(one["op"], "softmax");
    if (one["outcome"] == "lacks") {
      EXPECT_TRUE(one["error"].is_null());
      EXPECT_FALSE(one["reason"].get<std::string>().empty());
      continue;
    }
    EXPECT_LE(one["error"].get<double>(), one["bound"].get<double>());
    EXPECT_EQ(one["kernels"], nlohmann::json::array({"highway.softmax"}));
  }
}

TEST_F(ConformanceCommandTest, NarrowerVectorUnitsLackMore) {
  const auto lacks = [&](const std::string& isa) {
    return parse_json(conformance("--op linear --json --cpu-isa " + isa).out, "the output")["lacks"].get<int>();
  };
  EXPECT_GE(lacks("portable"), lacks("avx512"));
}

TEST_F(ConformanceCommandTest, NamesTheOpThatWasMeant) {
  const Outcome outcome = conformance("--op sofmax");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--op sofmax: no op is called that; did you mean 'softmax'?"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("softmax")));
}

}  // namespace
}  // namespace headroom
