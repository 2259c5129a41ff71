#include "base/tensors/block_format.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "base/tensors/block_layout_inl.hpp"
#include "base/tensors/dtype.hpp"

namespace headroom {
namespace {

/// One block after the other.
template <class Layout>
void unpack(const std::byte* blocks, std::int64_t count, float* values) {
  const auto* block = reinterpret_cast<const std::uint8_t*>(blocks);
  for (std::int64_t i = 0; i < count; ++i, block += Layout::kBytes) {
    for (int first = 0; first < Layout::kElements; first += Layout::kGroup) {
      const int group = first / Layout::kGroup;
      const float scale = Layout::scale(block, group);
      float minimum = 0;
      if constexpr (Layout::kHasMinimum) minimum = Layout::minimum(block, group);
      for (int word = 0; word < Layout::kGroup; word += 8) {
        const block_layout::Word integers = Layout::integers(block, first + word);
        for (int e = 0; e < 8; ++e) {
          const int integer = static_cast<int>(integers >> (8 * e) & 0xFFU) - Layout::kZero;
          const float value = scale * static_cast<float>(integer);
          *values++ = Layout::kHasMinimum ? value - minimum : value;
        }
      }
    }
  }
}

void unpack_f32(const std::byte* blocks, std::int64_t count, float* values) {
  std::memcpy(values, blocks, static_cast<std::size_t>(count) * sizeof(float));
}

void unpack_f16(const std::byte* blocks, std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = block_layout::load_f16(reinterpret_cast<const std::uint8_t*>(blocks) + 2 * i);
}

void unpack_bf16(const std::byte* blocks, std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = bf16_to_float(
        static_cast<std::uint16_t>(block_layout::load_u16(reinterpret_cast<const std::uint8_t*>(blocks) + 2 * i)));
}

/// A row of the table for a format that is read.
template <class Layout>
constexpr BlockFormat read_format(std::uint32_t number, std::string_view name) {
  return {number, name, Layout::kElements, Layout::kBytes, unpack<Layout>};
}

constexpr int kSmall = 32, kLarge = 256;  // elements of a block
/// One for a format whose size alone is known.
constexpr BlockFormat unread_format(std::uint32_t number, std::string_view name, int elements, int bytes) {
  return {number, name, elements, bytes, nullptr};
}

constexpr std::array kBlockFormats = {
    BlockFormat{0, "F32", 1, 4, unpack_f32},
    BlockFormat{1, "F16", 1, 2, unpack_f16},
    read_format<block_layout::Q4_0>(2, "Q4_0"),
    read_format<block_layout::Q4_1>(3, "Q4_1"),
    read_format<block_layout::Q5_0>(6, "Q5_0"),
    read_format<block_layout::Q5_1>(7, "Q5_1"),
    read_format<block_layout::Q8_0>(8, "Q8_0"),
    unread_format(9, "Q8_1", kSmall, 40),
    read_format<block_layout::Q2_K>(10, "Q2_K"),
    read_format<block_layout::Q3_K>(11, "Q3_K"),
    read_format<block_layout::Q4_K>(12, "Q4_K"),
    read_format<block_layout::Q5_K>(13, "Q5_K"),
    read_format<block_layout::Q6_K>(14, "Q6_K"),
    unread_format(15, "Q8_K", kLarge, 292),
    unread_format(16, "IQ2_XXS", kLarge, 66),
    unread_format(17, "IQ2_XS", kLarge, 74),
    unread_format(18, "IQ3_XXS", kLarge, 98),
    unread_format(19, "IQ1_S", kLarge, 50),
    read_format<block_layout::IQ4_NL>(20, "IQ4_NL"),
    unread_format(21, "IQ3_S", kLarge, 110),
    unread_format(22, "IQ2_S", kLarge, 82),
    read_format<block_layout::IQ4_XS>(23, "IQ4_XS"),
    unread_format(24, "I8", 1, 1),
    unread_format(25, "I16", 1, 2),
    unread_format(26, "I32", 1, 4),
    unread_format(27, "I64", 1, 8),
    unread_format(28, "F64", 1, 8),
    unread_format(29, "IQ1_M", kLarge, 56),
    BlockFormat{30, "BF16", 1, 2, unpack_bf16},
    unread_format(31, "Q4_0_4_4", kSmall, 18),  // 31 to 33 and 36 to 38: of older files
    unread_format(32, "Q4_0_4_8", kSmall, 18),
    unread_format(33, "Q4_0_8_8", kSmall, 18),
    unread_format(34, "TQ1_0", kLarge, 54),
    unread_format(35, "TQ2_0", kLarge, 66),
    unread_format(36, "IQ4_NL_4_4", kSmall, 18),
    unread_format(37, "IQ4_NL_4_8", kSmall, 18),
    unread_format(38, "IQ4_NL_8_8", kSmall, 18),
    unread_format(39, "MXFP4", kSmall, 17),
    unread_format(40, "NVFP4", 64, 36),
    unread_format(41, "Q1_0", 128, 18),
};
static_assert(std::ranges::is_sorted(kBlockFormats, {}, &BlockFormat::number));

}  // namespace

std::span<const BlockFormat> block_formats() noexcept { return kBlockFormats; }

const BlockFormat* find_block_format(std::uint32_t number) noexcept {
  const auto* const found = std::ranges::lower_bound(kBlockFormats, number, {}, &BlockFormat::number);
  return found == kBlockFormats.end() || found->number != number ? nullptr : found;
}

const BlockFormat* find_block_format(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kBlockFormats, name, &BlockFormat::name);
  return found == kBlockFormats.end() ? nullptr : found;
}

void unpack_blocks(const BlockFormat& format, std::span<const std::byte> blocks, std::span<float> values) {
  HR_CHECK(format.is_read());
  const auto count = static_cast<std::int64_t>(blocks.size()) / format.bytes;
  HR_CHECK_EQ(count * format.bytes, static_cast<std::int64_t>(blocks.size()));
  HR_CHECK_EQ(count * format.elements, static_cast<std::int64_t>(values.size()));
  if (count > 0) format.unpack(blocks.data(), count, values.data());
}

}  // namespace headroom
