#pragma once

// For tests of block formats: blocks with every scale that f16 has.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/tensors/block_format.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"

namespace headroom {

/// tests/goldens/gguf/scales.json: for each format the places of the scales in a block, "at", and the "sum" of the bits
/// of all values that gguf 0.19 reads from the blocks.
[[nodiscard]] inline nlohmann::json read_scales_golden() {
  return read_json(source_dir(kSourceDir) / "tests/goldens/gguf/scales.json");
}

/// blocks_of_all_scales() of tests/goldens/make_gguf.py.
[[nodiscard]] inline std::vector<std::byte> blocks_of_all_scales(const BlockFormat& format,
                                                                 const std::vector<std::int64_t>& places) {
  constexpr std::size_t kScales = 65536;
  const auto size = static_cast<std::size_t>(format.bytes);
  std::vector<std::byte> blocks(kScales * size);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::uint64_t mixed = i * 0x9E3779B97F4A7C15U;
    mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93U;
    blocks[i] = static_cast<std::byte>(mixed >> 56);
  }
  for (std::size_t block = 0; block < kScales; ++block)
    for (std::size_t shift = 0; shift < places.size(); ++shift) {
      const std::size_t scale = (block + kScales - shift) % kScales;
      const std::size_t at = block * size + static_cast<std::size_t>(places[shift]);
      blocks[at] = static_cast<std::byte>(scale & 0xFFU);
      blocks[at + 1] = static_cast<std::byte>(scale >> 8);
    }
  return blocks;
}

/// The first element whose bits differ, any NaN like any other; -1 if there is none.
[[nodiscard]] inline std::int64_t first_difference(std::span<const float> a, std::span<const float> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace headroom
