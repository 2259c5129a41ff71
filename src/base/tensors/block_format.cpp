#include "base/tensors/block_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "base/tensors/dtype.hpp"

namespace headroom {
namespace {

// Blocks of 32 elements have one scale d, and some a minimum m. Blocks of 256 ("K") have groups of 16 or 32 with
// integer scales of their own. Every number is little-endian, and no field is aligned.

constexpr int kSmall = 32;
constexpr int kLarge = 256;

/// The bytes of one block.
class BlockBytes {
 public:
  explicit BlockBytes(const std::byte* bytes) : bytes_(bytes) {}
  unsigned operator[](int at) const { return std::to_integer<unsigned>(bytes_[at]); }
  [[nodiscard]] int as_signed(int at) const { return static_cast<std::int8_t>((*this)[at]); }
  [[nodiscard]] unsigned u16(int at) const { return (*this)[at] | (*this)[at + 1] << 8; }
  [[nodiscard]] float f16(int at) const { return f16_to_float(static_cast<std::uint16_t>(u16(at))); }

 private:
  const std::byte* bytes_;
};

/// Four bits of a byte: the low ones, or the high ones.
unsigned nibble(unsigned byte, int which) { return byte >> (4 * which) & 15U; }

/// Elements i and i + 16 of a block of 32 share byte i: the low four bits, and the high ones.
template <typename Value>
void for_nibbles(BlockBytes block, int quants, float* values, const Value& value) {
  for (int i = 0; i < kSmall / 2; ++i) {
    values[i] = value(nibble(block[quants + i], 0), i);
    values[i + kSmall / 2] = value(nibble(block[quants + i], 1), i + kSmall / 2);
  }
}

void unpack_q4_0(BlockBytes block, float* values) {
  const float scale = block.f16(0);
  for_nibbles(block, 2, values,
              [&](unsigned low, int) { return scale * static_cast<float>(static_cast<int>(low) - 8); });
}

void unpack_q4_1(BlockBytes block, float* values) {
  const float scale = block.f16(0), minimum = block.f16(2);
  for_nibbles(block, 4, values, [&](unsigned low, int) { return scale * static_cast<float>(low) + minimum; });
}

/// The fifth bits of a block of 32: bit i of a little-endian word belongs to element i.
unsigned fifth_bit(BlockBytes block, int word, int element) { return block[word + element / 8] >> (element % 8) & 1U; }

void unpack_q5_0(BlockBytes block, float* values) {
  const float scale = block.f16(0);
  for_nibbles(block, 6, values, [&](unsigned low, int i) {
    return scale * static_cast<float>(static_cast<int>(low | fifth_bit(block, 2, i) << 4) - 16);
  });
}

void unpack_q5_1(BlockBytes block, float* values) {
  const float scale = block.f16(0), minimum = block.f16(2);
  for_nibbles(block, 8, values, [&](unsigned low, int i) {
    return scale * static_cast<float>(low | fifth_bit(block, 4, i) << 4) + minimum;
  });
}

void unpack_q8_0(BlockBytes block, float* values) {
  const float scale = block.f16(0);
  for (int i = 0; i < kSmall; ++i) values[i] = scale * static_cast<float>(block.as_signed(2 + i));
}

void unpack_q2_k(BlockBytes block, float* values) {
  constexpr int kQuants = 16, kScale = 80, kMinimum = 82;
  const float scale = block.f16(kScale), minimum = block.f16(kMinimum);
  for (int group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(nibble(block[group], 0));
    const float group_minimum = minimum * static_cast<float>(nibble(block[group], 1));
    for (int i = 16 * group; i < 16 * (group + 1); ++i) {
      const unsigned quant = block[kQuants + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3U;
      values[i] = group_scale * static_cast<float>(quant) - group_minimum;
    }
  }
}

void unpack_q3_k(BlockBytes block, float* values) {
  constexpr int kQuants = 32, kScales = 96, kScale = 108;  // the third bits come first, and count where they are 0
  const float scale = block.f16(kScale);
  for (int group = 0; group < 16; ++group) {
    const unsigned low = nibble(block[kScales + group % 8], group / 8);
    const unsigned high = block[kScales + 8 + group % 4] >> (group / 4 * 2) & 3U;
    const float group_scale = scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    for (int i = 16 * group; i < 16 * (group + 1); ++i) {
      const auto quant = static_cast<int>(block[kQuants + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3U);
      const bool has_third_bit = (block[i % 32] >> (i / 32) & 1U) != 0;
      values[i] = group_scale * static_cast<float>(has_third_bit ? quant : quant - 4);
    }
  }
}

/// Scale and minimum of a group of 32 in Q4_K and Q5_K: six bits each of 12 bytes from `at`.
struct GroupScale {
  unsigned scale, minimum;
};
GroupScale group_scale_of(BlockBytes block, int at, int group) {
  const auto byte = [&](int i) { return block[at + i]; };
  if (group < 4) return {byte(group) & 63U, byte(group + 4) & 63U};
  return {nibble(byte(group + 4), 0) | (byte(group - 4) >> 6) << 4, nibble(byte(group + 4), 1) | (byte(group) >> 6)
                                                                                                     << 4};
}

/// Q4_K and Q5_K: `quant` gives the integer of an element.
template <typename Quant>
void unpack_groups_of_32(BlockBytes block, float* values, const Quant& quant) {
  constexpr int kScale = 0, kMinimum = 2, kScales = 4;
  const float scale = block.f16(kScale), minimum = block.f16(kMinimum);
  for (int group = 0; group < 8; ++group) {
    const GroupScale of_group = group_scale_of(block, kScales, group);
    const float group_scale = scale * static_cast<float>(of_group.scale);
    const float group_minimum = minimum * static_cast<float>(of_group.minimum);
    for (int i = 0; i < 32; ++i)
      values[32 * group + i] = group_scale * static_cast<float>(quant(group, i)) - group_minimum;
  }
}

void unpack_q4_k(BlockBytes block, float* values) {
  constexpr int kQuants = 16;
  unpack_groups_of_32(block, values,
                      [&](int group, int i) { return nibble(block[kQuants + group / 2 * 32 + i], group % 2); });
}

void unpack_q5_k(BlockBytes block, float* values) {
  constexpr int kFifthBits = 16, kQuants = 48;
  unpack_groups_of_32(block, values, [&](int group, int i) {
    return nibble(block[kQuants + group / 2 * 32 + i], group % 2) | (block[kFifthBits + i] >> group & 1U) << 4;
  });
}

void unpack_q6_k(BlockBytes block, float* values) {
  constexpr int kHigh = 128, kScales = 192, kScale = 208;  // the low four bits come first
  const float scale = block.f16(kScale);
  for (int group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(block.as_signed(kScales + group));
    for (int i = 16 * group; i < 16 * (group + 1); ++i) {
      const int half = i / 128, place = i % 128;
      const unsigned low = nibble(block[64 * half + place % 64], place / 64);
      const unsigned high = block[kHigh + 32 * half + place % 32] >> (place / 32 * 2) & 3U;
      values[i] = group_scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    }
  }
}

/// The values of IQ4_NL and IQ4_XS, which are denser near 0.
constexpr std::array<float, 16> kUneven = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void unpack_iq4_nl(BlockBytes block, float* values) {
  const float scale = block.f16(0);
  for_nibbles(block, 2, values, [&](unsigned index, int) { return scale * kUneven[index]; });
}

void unpack_iq4_xs(BlockBytes block, float* values) {
  constexpr int kScalesHigh = 2, kScalesLow = 4, kQuants = 8;
  const float scale = block.f16(0);
  for (int group = 0; group < 8; ++group) {
    const unsigned low = nibble(block[kScalesLow + group / 2], group % 2);
    const unsigned high = block.u16(kScalesHigh) >> (2 * group) & 3U;
    const float group_scale = scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    for_nibbles(block, kQuants + 16 * group, values + 32 * group,
                [&](unsigned index, int) { return group_scale * kUneven[index]; });
  }
}

void unpack_f32(const std::byte* blocks, std::int64_t count, float* values) {
  std::memcpy(values, blocks, static_cast<std::size_t>(count) * sizeof(float));
}

void unpack_f16(BlockBytes block, float* values) { *values = block.f16(0); }

void unpack_bf16(BlockBytes block, float* values) { *values = bf16_to_float(static_cast<std::uint16_t>(block.u16(0))); }

/// One block after the other.
template <void (*kUnpackOne)(BlockBytes, float*), int kElements, int kBytes>
void unpack_each(const std::byte* blocks, std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) kUnpackOne(BlockBytes(blocks + i * kBytes), values + i * kElements);
}

/// A row of the table for a format that is read.
template <void (*kUnpackOne)(BlockBytes, float*), int kElements, int kBytes>
constexpr BlockFormat read_format(std::uint32_t number, std::string_view name) {
  return {number, name, kElements, kBytes, unpack_each<kUnpackOne, kElements, kBytes>};
}
/// One for a format whose size alone is known.
constexpr BlockFormat unread_format(std::uint32_t number, std::string_view name, int elements, int bytes) {
  return {number, name, elements, bytes, nullptr};
}

constexpr std::array kBlockFormats = {
    BlockFormat{0, "F32", 1, 4, unpack_f32},
    read_format<unpack_f16, 1, 2>(1, "F16"),
    read_format<unpack_q4_0, kSmall, 18>(2, "Q4_0"),
    read_format<unpack_q4_1, kSmall, 20>(3, "Q4_1"),
    read_format<unpack_q5_0, kSmall, 22>(6, "Q5_0"),
    read_format<unpack_q5_1, kSmall, 24>(7, "Q5_1"),
    read_format<unpack_q8_0, kSmall, 34>(8, "Q8_0"),
    unread_format(9, "Q8_1", kSmall, 40),
    read_format<unpack_q2_k, kLarge, 84>(10, "Q2_K"),
    read_format<unpack_q3_k, kLarge, 110>(11, "Q3_K"),
    read_format<unpack_q4_k, kLarge, 144>(12, "Q4_K"),
    read_format<unpack_q5_k, kLarge, 176>(13, "Q5_K"),
    read_format<unpack_q6_k, kLarge, 210>(14, "Q6_K"),
    unread_format(15, "Q8_K", kLarge, 292),
    unread_format(16, "IQ2_XXS", kLarge, 66),
    unread_format(17, "IQ2_XS", kLarge, 74),
    unread_format(18, "IQ3_XXS", kLarge, 98),
    unread_format(19, "IQ1_S", kLarge, 50),
    read_format<unpack_iq4_nl, kSmall, 18>(20, "IQ4_NL"),
    unread_format(21, "IQ3_S", kLarge, 110),
    unread_format(22, "IQ2_S", kLarge, 82),
    read_format<unpack_iq4_xs, kLarge, 136>(23, "IQ4_XS"),
    unread_format(24, "I8", 1, 1),
    unread_format(25, "I16", 1, 2),
    unread_format(26, "I32", 1, 4),
    unread_format(27, "I64", 1, 8),
    unread_format(28, "F64", 1, 8),
    unread_format(29, "IQ1_M", kLarge, 56),
    read_format<unpack_bf16, 1, 2>(30, "BF16"),
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

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16, exponent = bits & 0x7C00U, mantissa = bits & 0x03FFU;
  if (exponent == 0) {  // zero and subnormal numbers
    const auto magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24F);
    return std::bit_cast<float>(sign | magnitude);
  }
  constexpr std::uint32_t kRebias = (127U - 15U) << 23, kAllOnes = 0x7F800000U;
  const std::uint32_t magnitude = (exponent | mantissa) << 13;
  return std::bit_cast<float>(sign | (exponent == 0x7C00U ? kAllOnes | magnitude : magnitude + kRebias));
}

void unpack_blocks(const BlockFormat& format, std::span<const std::byte> blocks, std::span<float> values) {
  HR_CHECK(format.is_read());
  const auto count = static_cast<std::int64_t>(blocks.size()) / format.bytes;
  HR_CHECK_EQ(count * format.bytes, static_cast<std::int64_t>(blocks.size()));
  HR_CHECK_EQ(count * format.elements, static_cast<std::int64_t>(values.size()));
  if (count > 0) format.unpack(blocks.data(), count, values.data());
}

}  // namespace headroom
