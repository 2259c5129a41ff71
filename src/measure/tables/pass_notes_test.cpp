#include "measure/tables/pass_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/text/text.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PassNotes, NameUpToThreeNodes) {
  EXPECT_EQ(sentence_of(PassNote{.reason = "steps are spread evenly", .nodes = {}}), "steps are spread evenly");
  EXPECT_EQ(sentence_of(PassNote{.reason = "first layer", .nodes = {"a"}}), "kept a (first layer)");
  EXPECT_EQ(sentence_of(PassNote{.reason = "long sums", .nodes = {"a", "b", "c"}, .kind = NoteKind::kLossy}),
            "loss in a, b, c (long sums)");
  EXPECT_EQ(sentence_of(PassNote{.reason = "too small", .nodes = {"a", "b", "c", "d", "e"}}),
            "kept a, b, c and 2 more (too small)");
  EXPECT_EQ(to_json(PassNote{.reason = "r", .nodes = {"a", "b"}}).dump(), R"({"nodes":["a","b"],"reason":"r"})");
}

/// The losses of the pass fp8 on matmuls over 4096 positive numbers and over 12288 of both signs, on a Hopper.
std::vector<std::string> losses_under(std::string_view list) {
  Graph graph = parse_graph(R"(graph model {
  input %x: bf16[1, 128, 4096]
  param %w: bf16[4096, 4096]
  param %up: bf16[12288, 4096]
  param %down: bf16[4096, 12288]
  %0: bf16[1, 128, 4096] = linear(%x, %w) {epilogue = relu(sum)} @ first
  %1: bf16[1, 128, 4096] = linear(%0, %w) {epilogue = sum} @ blocks.0.positive
  %2: bf16[1, 128, 12288] = linear(%1, %up) {epilogue = sum} @ blocks.0.up
  %3: bf16[1, 128, 4096] = linear(%2, %down) {epilogue = sum} @ blocks.0.down
  %4: bf16[1, 128, 4096] = linear(%3, %w) {epilogue = sum} @ last
  output y = %4
})");
  const SwitchSet switches = SwitchSet::parse(list);
  std::vector<std::string> losses;
  for (const PassRecord& pass :
       optimize(graph, switches, Target{.device = DeviceKind::kCuda, .compute_capability = 90}).passes)
    for (std::string& loss : describe_losses(pass, switches)) losses.push_back(std::move(loss));
  return losses;
}

TEST(PassNotes, LossesOfFp8AreNamedWithTheSwitchAgainstThem) {
  EXPECT_THAT(
      losses_under("fp8"),
      ElementsAre("loss in blocks.0.positive (inputs are never negative: fast sums of 4096 positive products are "
                  "about 5.4% too small; fp8=exact sums in f32)",
                  "loss in blocks.0.down (long sums: 12288 products summed fast are off by 0.16%, summed in f32 "
                  "by 0.02% (fp8=exact))",
                  "--opt 'fp8=exact:modules=^(blocks.[0-9]+.down|blocks.[0-9]+.positive)$' sums these in f32"));
  EXPECT_THAT(losses_under("fp8=exact"), IsEmpty());
  EXPECT_THAT(losses_under("bf16"), IsEmpty());
}

TEST(PassNotes, TheSwitchAgainstLossesLeavesNone) {
  const std::string advice = losses_under("fp8").back();
  const std::size_t begin = advice.find('\'') + 1;
  EXPECT_THAT(losses_under(advice.substr(begin, advice.rfind('\'') - begin)), IsEmpty());
}

}  // namespace
}  // namespace headroom
