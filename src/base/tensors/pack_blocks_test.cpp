#include "base/tensors/pack_blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/block_test_util.hpp"
#include "base/tensors/random.hpp"

namespace headroom {
namespace {

/// values_to_pack() of tests/goldens/make_gguf.py.
std::vector<float> values_to_pack() {
  std::vector<float> values(4096 * 32);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t mixed = i * 0x9E3779B97F4A7C15U;
    mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93U;
    const std::size_t block = i / 32;
    const auto integer = static_cast<float>(static_cast<std::int64_t>(mixed >> 40) - (1 << 23));
    values[i] = block % 64 == 63 ? 0 : std::ldexp(integer, static_cast<int>(block % 40) - 31 - 23);
  }
  return values;
}

std::vector<std::byte> pack(const BlockFormat& format, const std::vector<float>& values) {
  std::vector<std::byte> blocks(values.size() / static_cast<std::size_t>(format.elements) *
                                static_cast<std::size_t>(format.bytes));
  pack_blocks(format, values, blocks);
  return blocks;
}

// Against gguf 0.19.
TEST(PackBlocks, IsGgufBitForBit) {
  const nlohmann::json golden = read_json(source_dir(kSourceDir) / "tests/goldens/gguf/packed.json");
  const std::vector<float> values = values_to_pack();
  EXPECT_EQ(golden.size(), 2U);
  for (const auto& [name, expected] : golden.items()) {
    std::uint64_t sum = 0, i = 0;
    for (const std::byte byte : pack(*find_block_format(name), values))
      sum += std::to_integer<std::uint64_t>(byte) * (2 * i++ + 1);
    EXPECT_EQ(fmt::format("{:016x}", sum), expected.get<std::string>()) << name;
  }
}

double error_of_packing(const char* name, const std::vector<float>& values) {
  const BlockFormat& format = *find_block_format(name);
  std::vector<float> unpacked(values.size());
  unpack_blocks(format, pack(format, values), unpacked);
  double error = 0, whole = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(unpacked[i] - values[i]), 2);
    whole += std::pow(static_cast<double>(values[i]), 2);
  }
  return std::sqrt(error / whole);
}

// Normal numbers; ggml's own Q4_K and Q6_K have 0.067 and 0.016.
TEST(PackBlocks, LosesAsLittleAsItsFormatAllows) {
  std::vector<float> values(256 * 400);
  fill_normal(values, 1, 2);
  for (float& value : values) value *= 0.02F;
  EXPECT_LT(error_of_packing("Q8_0", values), 0.006);
  EXPECT_LT(error_of_packing("Q6_K", values), 0.02);
  EXPECT_LT(error_of_packing("Q4_K", values), 0.075);
  EXPECT_LT(error_of_packing("Q4_0", values), 0.1);
  for (float& value : values) value += 0.05F;  // the minimum of Q4_K takes the mean
  EXPECT_LT(error_of_packing("Q4_K", values), 0.04);
}

TEST(PackBlocks, CountsWhatItsScalesDoNotHold) {
  const BlockFormat& format = *find_block_format("Q8_0");
  std::vector<float> values(64, 0.5F);
  for (std::size_t i = 32; i < 64; ++i) values[i] = i % 2 == 0 ? 1e-7F : 0;
  std::vector<std::byte> blocks(68);
  EXPECT_EQ(pack_blocks(format, values, blocks).below_scale, 16);
  std::vector<float> unpacked(64);
  unpack_blocks(format, blocks, unpacked);
  EXPECT_EQ(unpacked[32], 0);
}

TEST(PackBlocks, RefusesWhatItCannotPack) {
  EXPECT_TRUE(can_pack(*find_block_format("Q6_K")));
  EXPECT_FALSE(can_pack(*find_block_format("Q5_K")));
  std::vector<std::byte> blocks(34);
  std::vector<float> values(32, std::numeric_limits<float>::infinity());
  EXPECT_THROW(pack_blocks(*find_block_format("Q8_0"), values, blocks), Error);
  values.assign(31, 0);
  EXPECT_THROW(pack_blocks(*find_block_format("Q8_0"), values, blocks), std::logic_error);
}

}  // namespace
}  // namespace headroom
