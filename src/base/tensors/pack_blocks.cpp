#include "base/tensors/pack_blocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/tensors/block_layout_inl.hpp"
#include "base/tensors/dtype.hpp"

namespace headroom {
namespace {

using Bytes = std::uint8_t*;

/// Stores a number as f16 and returns what is stored.
float store_f16(Bytes at, float value) {
  store_from_double(at, DType::kF16, static_cast<double>(value));
  return block_layout::load_f16(at);
}

/// To the nearest integer, halves away from zero.
int nearest(float value) { return static_cast<int>(std::lround(value)); }

/// Of a scale; 0 if that is 0, or too small to have one.
float inverse_of(float value) {
  const float inverse = 1 / value;
  return std::isfinite(inverse) ? inverse : 0;
}

/// Whether f16 holds a scale to 2%.
bool is_held(float scale, float stored) { return std::fabs(stored - scale) <= 0.02F * std::fabs(scale); }

std::int64_t count_nonzero(std::span<const float> values) {
  return static_cast<std::int64_t>(values.size()) - std::ranges::count(values, 0.0F);
}

std::int64_t pack_q8_0(std::span<const float> x, Bytes block) {
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  const float scale = largest / 127, inverse = inverse_of(scale);
  const bool is_lost = !is_held(scale, store_f16(block, scale));
  for (std::size_t i = 0; i < x.size(); ++i)
    block[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(nearest(x[i] * inverse)));
  return is_lost ? count_nonzero(x) : 0;
}

std::int64_t pack_q4_0(std::span<const float> x, Bytes block) {
  float largest = 0;
  for (const float value : x)
    if (std::fabs(value) > std::fabs(largest)) largest = value;
  const float scale = largest / -8, inverse = inverse_of(scale);
  const bool is_lost = !is_held(scale, store_f16(block, scale));
  const auto integer = [&](float value) {
    return static_cast<unsigned>(std::clamp(static_cast<int>(value * inverse + 8.5F), 0, 15));
  };
  for (std::size_t i = 0; i < 16; ++i)
    block[2 + i] = static_cast<std::uint8_t>(integer(x[i]) | integer(x[i + 16]) << 4);
  return is_lost ? count_nonzero(x) : 0;
}

/// A scale and minimum for x = scale * q - minimum with integers q in [0, most].
struct Affine {
  float scale = 0, minimum = 0;
};

/// The least squared error over candidates: the range of the values divided by slightly different numbers of steps,
/// and for the integers that each gives the best scale and minimum by linear regression.
Affine fit_affine(std::span<const float> x, int most) {
  const auto [low_at, high_at] = std::ranges::minmax_element(x);
  const float low = std::min(*low_at, 0.0F), high = *high_at;
  if (high <= low) return {.scale = 0, .minimum = -low};
  Affine best;
  float least = -1;
  const auto consider = [&](Affine candidate) {
    if (!(candidate.scale > 0) || candidate.minimum < 0) return;
    float error = 0;
    for (const float value : x) {
      const int q = std::clamp(nearest((value + candidate.minimum) / candidate.scale), 0, most);
      const float off = candidate.scale * static_cast<float>(q) - candidate.minimum - value;
      error += off * off;
    }
    if (least < 0 || error < least) {
      least = error;
      best = candidate;
    }
  };
  constexpr int kCandidates = 21;
  for (int i = 0; i < kCandidates; ++i) {
    const float steps = static_cast<float>(most) - 1 + 0.1F * static_cast<float>(i);
    const float scale = (high - low) / steps;
    double sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
    for (const float value : x) {
      const int q = std::clamp(nearest((value - low) / scale), 0, most);
      sum_q += q;
      sum_qq += static_cast<double>(q) * q;
      sum_x += static_cast<double>(value);
      sum_qx += q * static_cast<double>(value);
    }
    consider({scale, -low});
    const auto count = static_cast<double>(x.size());
    const double determinant = count * sum_qq - sum_q * sum_q;
    if (determinant <= 0) continue;
    const double slope = (count * sum_qx - sum_q * sum_x) / determinant;
    const double offset = (sum_x - slope * sum_q) / count;
    consider({static_cast<float>(slope), static_cast<float>(-offset)});
  }
  return best;
}

/// The integers of groups of 32 in six bits each of 12 bytes, as six_bit_scale() reads them.
void store_six_bits(Bytes scales, int group, int scale, int minimum) {
  if (group < 4) {
    scales[group] = static_cast<std::uint8_t>((scales[group] & 0xC0) | scale);
    scales[group + 4] = static_cast<std::uint8_t>((scales[group + 4] & 0xC0) | minimum);
    return;
  }
  scales[group + 4] = static_cast<std::uint8_t>((scale & 15) | (minimum & 15) << 4);
  scales[group - 4] = static_cast<std::uint8_t>((scales[group - 4] & 0x3F) | (scale >> 4) << 6);
  scales[group] = static_cast<std::uint8_t>((scales[group] & 0x3F) | (minimum >> 4) << 6);
}

std::int64_t pack_q4_k(std::span<const float> x, Bytes block) {
  constexpr int kGroups = 8, kGroup = 32, kMost = 15, kMostScale = 63;
  std::array<Affine, kGroups> fits;
  float largest_scale = 0, largest_minimum = 0;
  for (int g = 0; g < kGroups; ++g) {
    fits[static_cast<std::size_t>(g)] = fit_affine(x.subspan(static_cast<std::size_t>(g * kGroup), kGroup), kMost);
    largest_scale = std::max(largest_scale, fits[static_cast<std::size_t>(g)].scale);
    largest_minimum = std::max(largest_minimum, fits[static_cast<std::size_t>(g)].minimum);
  }
  std::memset(block, 0, 144);
  const float scale = largest_scale / kMostScale, minimum = largest_minimum / kMostScale;
  const bool is_lost = !is_held(scale, store_f16(block, scale)) || !is_held(minimum, store_f16(block + 2, minimum));
  for (int g = 0; g < kGroups; ++g) {
    const Affine& fit = fits[static_cast<std::size_t>(g)];
    store_six_bits(block + 4, g, std::min(kMostScale, nearest(fit.scale * inverse_of(scale))),
                   std::min(kMostScale, nearest(fit.minimum * inverse_of(minimum))));
  }
  for (int g = 0; g < kGroups; ++g) {
    const float own = block_layout::Q4_K::scale(block, g), inverse = inverse_of(own);
    const float own_minimum = block_layout::Q4_K::minimum(block, g);
    for (int i = 0; i < kGroup; ++i) {
      const float value = x[static_cast<std::size_t>(g * kGroup + i)];
      const int q = std::clamp(nearest((value + own_minimum) * inverse), 0, kMost);
      block[16 + g / 2 * 32 + i] |= static_cast<std::uint8_t>(q << (g % 2 * 4));
    }
  }
  return is_lost ? count_nonzero(x) : 0;
}

/// The scale of integers in [-32, 31] with the least squared error over a few candidates.
float fit_symmetric(std::span<const float> x) {
  float largest = 0;
  for (const float value : x)
    if (std::fabs(value) > std::fabs(largest)) largest = value;
  if (largest == 0) return 0;
  double most = -1;
  float best = 0;
  for (int i = -9; i <= 9; ++i) {
    const float inverse = -(32 + 0.1F * static_cast<float>(i)) / largest;
    double sum_qx = 0, sum_qq = 0;
    for (const float value : x) {
      const int q = std::clamp(nearest(value * inverse), -32, 31);
      sum_qx += q * static_cast<double>(value);
      sum_qq += static_cast<double>(q) * q;
    }
    // The best scale for these integers is sum_qx / sum_qq, which lowers the error by sum_qx^2 / sum_qq.
    if (sum_qq > 0 && sum_qx * sum_qx / sum_qq > most) {
      most = sum_qx * sum_qx / sum_qq;
      best = static_cast<float>(sum_qx / sum_qq);
    }
  }
  return best;
}

std::int64_t pack_q6_k(std::span<const float> x, Bytes block) {
  constexpr int kGroups = 16, kGroup = 16;
  std::array<float, kGroups> scales;
  float largest = 0;
  for (int g = 0; g < kGroups; ++g) {
    const float scale = fit_symmetric(x.subspan(static_cast<std::size_t>(g * kGroup), kGroup));
    scales[static_cast<std::size_t>(g)] = scale;
    if (std::fabs(scale) > std::fabs(largest)) largest = scale;
  }
  std::memset(block, 0, 210);
  const float scale = largest / -128;
  const bool is_lost = !is_held(scale, store_f16(block + 208, scale));
  for (int g = 0; g < kGroups; ++g) {
    const int own = std::clamp(nearest(scales[static_cast<std::size_t>(g)] * inverse_of(scale)), -128, 127);
    block[192 + g] = static_cast<std::uint8_t>(static_cast<std::int8_t>(own));
    const float inverse = inverse_of(block_layout::Q6_K::scale(block, g));
    for (int i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      const auto q = static_cast<unsigned>(std::clamp(nearest(x[static_cast<std::size_t>(i)] * inverse), -32, 31) + 32);
      const int half = i / 128, place = i % 128;
      block[64 * half + place % 64] |= static_cast<std::uint8_t>((q & 15U) << (place / 64 * 4));
      block[128 + 32 * half + place % 32] |= static_cast<std::uint8_t>((q >> 4) << (place / 32 * 2));
    }
  }
  return is_lost ? count_nonzero(x) : 0;
}

using PackOne = std::int64_t (*)(std::span<const float>, Bytes);

PackOne packer_of(const BlockFormat& format) noexcept {
  constexpr std::pair<std::string_view, PackOne> kPackers[] = {
      {"Q8_0", pack_q8_0}, {"Q4_0", pack_q4_0}, {"Q4_K", pack_q4_k}, {"Q6_K", pack_q6_k}};
  for (const auto& [name, pack] : kPackers)
    if (name == format.name) return pack;
  return nullptr;
}

}  // namespace

bool can_pack(const BlockFormat& format) noexcept { return packer_of(format) != nullptr; }

PackingLoss pack_blocks(const BlockFormat& format, std::span<const float> values, std::span<std::byte> blocks) {
  const PackOne pack = packer_of(format);
  HR_CHECK(pack != nullptr);
  const auto elements = static_cast<std::size_t>(format.elements), bytes = static_cast<std::size_t>(format.bytes);
  HR_CHECK_EQ(values.size() % elements, 0U);
  HR_CHECK_EQ(blocks.size(), values.size() / elements * bytes);
  constexpr float kLargest = 1e30F;  // squares stay finite
  if (!std::ranges::all_of(values, [](float value) { return std::fabs(value) <= kLargest; }))
    fail("cannot pack numbers that are not finite, or above 1e30, in {}", format.name);
  PackingLoss loss;
  for (std::size_t block = 0; block * elements < values.size(); ++block)
    loss.below_scale +=
        pack(values.subspan(block * elements, elements), reinterpret_cast<Bytes>(blocks.data() + block * bytes));
  return loss;
}

}  // namespace headroom
