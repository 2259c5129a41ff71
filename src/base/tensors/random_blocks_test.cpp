#include "base/tensors/random_blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headroom {
namespace {

TEST(RandomBlocks, HaveTheMomentsOfTheStreamInEveryFormat) {
  constexpr std::size_t kBlocks = 2000;
  for (const BlockFormat& format : block_formats()) {
    if (!format.is_packed()) continue;
    SCOPED_TRACE(format.name);
    std::vector<std::byte> blocks(kBlocks * static_cast<std::size_t>(format.bytes));
    draw_blocks(format, {.seed = 7, .stream = 3, .deviation = 0.02F}, 0, blocks);
    std::vector<float> values(kBlocks * static_cast<std::size_t>(format.elements));
    unpack_blocks(format, blocks, values);
    double sum = 0, squares = 0;
    for (const float value : values) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double mean = sum / static_cast<double>(values.size());
    EXPECT_NEAR(mean, 0, 0.003);
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 0.02, 0.002);
  }
}

TEST(RandomBlocks, DependOnTheirIndexAlone) {
  const BlockFormat& format = *find_block_format("Q5_0");  // of 22 bytes
  const NormalStream stream{.seed = 7, .stream = 3, .deviation = 1};
  std::vector<std::byte> all(10 * 22), part(4 * 22);
  draw_blocks(format, stream, 0, all);
  draw_blocks(format, stream, 3, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 3 * 22));
  draw_blocks(format, {.seed = 8, .stream = 3, .deviation = 1}, 3, part);
  EXPECT_FALSE(std::equal(part.begin(), part.end(), all.begin() + 3 * 22));
}

}  // namespace
}  // namespace headroom
