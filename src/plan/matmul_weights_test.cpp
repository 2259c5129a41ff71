#include "plan/matmul_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;

TEST(MatmulWeights, AreCountedByTheirDtypesInTheFileAndInTheMatmul) {
  const Graph graph = parse_graph(R"(graph g {
      input %x: bf16[3, 32]
      input %q: f8e4m3[3, 32]
      input %s: f32[3]
      param %a: f32[32, 32]
      param %b: u8[32, 1, 18]
      param %c: f8e4m3[32, 32]
      param %cs: f32[1]
      %1: bf16[32, 32] = cast(%a) {dtype = bf16}
      %2: bf16[32, 32] = unpack_blocks(%b) {format = "Q4_0", dtype = bf16, at_run = 1}
      %3: bf16[64, 32] = concat(%1, %2) {axis = 0}
      %4: f32[32] = broadcast(%cs) {shape = [32]}
      %5: bf16[3, 32] = linear(%x, %1)
      %6: bf16[3, 32] = linear(%5, %1)
      %7: bf16[3, 64] = linear(%6, %3)
      %8: bf16[3, 32] = scaled_linear(%q, %s, %c, %4) {dtype = bf16}
      output y = %7
      output z = %8
    })");
  std::vector<std::string> texts;
  for (const MatmulWeights& one : count_matmul_weights(graph)) texts.push_back(one.text());
  EXPECT_THAT(texts, ElementsAre("2 matmuls with weights in f32, computed in bf16",
                                 "1 matmul with weights in Q4_0 and f32, packed, computed in bf16",
                                 "1 matmul with weights in f8e4m3, computed in f8e4m3"));
}

}  // namespace
}  // namespace headroom
