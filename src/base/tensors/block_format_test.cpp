#include "base/tensors/block_format.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/tensors/block_layout_inl.hpp"
#include "base/tensors/block_test_util.hpp"
#include "base/tensors/dtype.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

/// checksum() of tests/goldens/make_gguf.py.
std::uint64_t checksum(const std::vector<float>& values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = std::isnan(values[i]) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(values[i]);
    sum += bits * (2 * i + 1);
  }
  return sum;
}

// Against gguf 0.19: the sums of all bits of the values, for every scale that f16 has.
TEST(BlockFormat, EveryScaleUnpacksBitForBit) {
  const nlohmann::json golden = read_scales_golden();
  std::set<std::string> formats;
  for (const auto& [name, expected] : golden.items()) {
    const BlockFormat* const format = find_block_format(name);
    ASSERT_NE(format, nullptr) << name;
    const std::vector<std::byte> blocks = blocks_of_all_scales(*format, get_int_array(expected, "at", name));
    std::vector<float> values(65536 * static_cast<std::size_t>(format->elements));
    unpack_blocks(*format, blocks, values);
    EXPECT_EQ(fmt::format("{:016x}", checksum(values)), get_string(expected, "sum", name)) << name;
    formats.insert(name);
  }
  for (const BlockFormat& format : block_formats())
    EXPECT_EQ(formats.contains(std::string(format.name)), format.is_read()) << format.name;
}

TEST(BlockFormat, IsFoundByNumberAndByName) {
  for (const BlockFormat& format : block_formats()) {
    EXPECT_EQ(find_block_format(format.number), &format);
    EXPECT_EQ(find_block_format(format.name), &format);
  }
  EXPECT_EQ(find_block_format(12)->name, "Q4_K");
  EXPECT_EQ(find_block_format(4), nullptr);
  EXPECT_EQ(find_block_format(42), nullptr);
  EXPECT_EQ(find_block_format(0xFFFFFFFFU), nullptr);
  EXPECT_EQ(find_block_format("q4_k"), nullptr);
}

TEST(BlockFormat, TakesWholeBlocksOfAFormatThatIsRead) {
  const BlockFormat& format = *find_block_format("Q8_0");
  std::vector<std::byte> blocks(2 * 34);
  std::vector<float> values(2 * 32);
  unpack_blocks(format, blocks, values);
  unpack_blocks(format, {}, {});
  EXPECT_THROW(unpack_blocks(format, blocks, std::span(values).first(63)), std::logic_error);
  EXPECT_THROW(unpack_blocks(format, std::span(blocks).first(67), values), std::logic_error);
  EXPECT_THROW(unpack_blocks(*find_block_format("Q8_K"), {}, {}), std::logic_error);
}

TEST(BlockFormat, F16IsWidenedExactly) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto exact = static_cast<float>(load_as_double(&half, DType::kF16));
    const float value = block_layout::float_of_f16(half);
    if (std::isnan(exact))
      EXPECT_TRUE(std::isnan(value)) << bits;
    else
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(exact)) << bits;
  }
}

}  // namespace
}  // namespace headroom
