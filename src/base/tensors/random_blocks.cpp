#include "base/tensors/random_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/block_layout_inl.hpp"
#include "base/tensors/dtype.hpp"
#include "base/tensors/random_inl.hpp"

namespace headroom {
namespace {

/// The places of a block's scales; kNone for a minimum that the format does not have.
struct Places {
  int scale = 0, minimum = block_layout::kNone;
};

Places places_of(const BlockFormat& format) {
  Places places;
  const bool is_known = block_layout::with_layout(format.number, [&](auto layout) {
    places = {decltype(layout)::kScaleAt, decltype(layout)::kMinimumAt};
  });
  HR_CHECK(is_known);
  return places;
}

/// Random bytes, 16 at a time, of a stream: those from byte `first` on.
void draw_bytes(const NormalStream& stream, std::uint64_t first, std::span<std::byte> bytes) {
  constexpr std::uint64_t kWords = 16;
  for (std::uint64_t done = 0; done < bytes.size();) {
    const std::uint64_t at = first + done;
    const random_inl::Words words = random_inl::words_of(stream.seed, stream.stream, at / kWords);
    const std::uint64_t skipped = at % kWords, count = std::min<std::uint64_t>(kWords - skipped, bytes.size() - done);
    std::memcpy(bytes.data() + done, reinterpret_cast<const std::byte*>(words.word) + skipped, count);
    done += count;
  }
}

void set_scale(std::byte* block, int place, float value) {
  if (place != block_layout::kNone) store_from_double(block + place, DType::kF16, static_cast<double>(value));
}

struct Scales {
  float scale = 1, minimum = 0;
};

/// Block scales for a mean of 0 and a standard deviation of 1, by a sample.
Scales unit_scales(const BlockFormat& format) {
  constexpr std::size_t kBlocks = 256;
  const Places places = places_of(format);
  std::vector<std::byte> blocks(kBlocks * static_cast<std::size_t>(format.bytes));
  std::vector<float> values(kBlocks * static_cast<std::size_t>(format.elements));
  struct Moments {
    double mean, deviation;
  };
  const auto moments = [&](Scales scales) {
    draw_bytes({.seed = 1}, 0, blocks);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      set_scale(blocks.data() + i * static_cast<std::size_t>(format.bytes), places.scale, scales.scale);
      set_scale(blocks.data() + i * static_cast<std::size_t>(format.bytes), places.minimum, scales.minimum);
    }
    unpack_blocks(format, blocks, values);
    double sum = 0, squares = 0;
    for (const float value : values) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double mean = sum / static_cast<double>(values.size());
    return Moments{mean, std::sqrt(squares / static_cast<double>(values.size()) - mean * mean)};
  };
  Scales scales{.scale = 1, .minimum = 0};
  if (places.minimum != block_layout::kNone) {
    const double of_scale = moments(scales).mean, of_minimum = moments({.scale = 0, .minimum = 1}).mean;
    scales.minimum = static_cast<float>(-of_scale / of_minimum);
  }
  const auto deviation = static_cast<float>(moments(scales).deviation);
  return {scales.scale / deviation, scales.minimum / deviation};
}

}  // namespace

void draw_blocks(const BlockFormat& format, const NormalStream& stream, std::uint64_t first,
                 std::span<std::byte> blocks) {
  const auto size = static_cast<std::size_t>(format.bytes);
  HR_CHECK_EQ(blocks.size() % size, 0U);
  const Places places = places_of(format);
  const Scales unit = unit_scales(format);
  draw_bytes(stream, first * size, blocks);
  for (std::size_t at = 0; at < blocks.size(); at += size) {
    set_scale(blocks.data() + at, places.scale, unit.scale * stream.deviation);
    set_scale(blocks.data() + at, places.minimum, unit.minimum * stream.deviation);
  }
}

}  // namespace headroom
