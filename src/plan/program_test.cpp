#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "ir/text/text.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

using testing::Not;

TEST(ToText, AlignsColumnsAndWritesBytesInUnitsThatFit) {
  const Program program = plan(parse_graph(R"(graph short_and_long {
    input %x: f32[2, 4, 96]
    input %m: f32[2, 1, 96]
    %2: f32[2, 4, 96] = norm_modulate(%x, %m, %m) {eps = 1e-06}
    %3: f32[2, 4, 96] = silu(%2)
    output y = %3
  })"),
                               Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = true});
  const std::string text = to_text(program, false);
  std::istringstream lines(text);
  std::set<std::size_t> places;  // of the types of results
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
    if (const std::size_t at = line.find("f32["); at != std::string::npos) places.insert(at);
  }
  EXPECT_EQ(places.size(), 1U) << text;
  EXPECT_THAT(text, testing::ContainsRegex("arena +[0-9.]+ KiB, "));
  EXPECT_THAT(text, Not(testing::HasSubstr("0.0 MiB"))) << text;
}

}  // namespace
}  // namespace headroom
