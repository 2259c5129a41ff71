#include "base/tensors/random.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/error.hpp"
#include "base/tensors/random_inl.hpp"

namespace headroom {
namespace {

/// Fills `out` from blocks of four elements; the blocks at both ends may be cut.
template <typename Transform>
void fill(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset, Transform transform) {
  std::size_t skip = offset % 4;
  for (std::uint64_t block = offset / 4; !out.empty(); ++block, skip = 0) {
    const random_inl::Four values = transform(random_inl::words_of(seed, stream, block));
    const std::size_t count = std::min(4 - skip, out.size());
    std::copy_n(values.value + skip, count, out.begin());
    out = out.subspan(count);
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  const random_inl::Words words =
      random_inl::philox4x32({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

void fill_uniform(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset) {
  fill(out, seed, stream, offset, random_inl::uniforms);
}

void fill_normal(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset) {
  fill(out, seed, stream, offset, random_inl::normals);
}

void store_normal(void* out, DType dtype, std::uint64_t count, const NormalStream& from, std::uint64_t offset) {
  HR_CHECK(is_float(dtype));
  const std::size_t size = size_of(dtype);
  auto* to = static_cast<std::byte*>(out);
  std::array<float, 4096> values{};
  for (std::uint64_t done = 0; done < count; done += values.size()) {
    const std::span piece = std::span(values).first(std::min<std::uint64_t>(values.size(), count - done));
    fill_normal(piece, from.seed, from.stream, offset + done);
    for (const float normal : piece) {
      const float value = from.mean + from.deviation * normal;
      if (dtype == DType::kF32) {
        std::memcpy(to, &value, sizeof value);
      } else if (dtype == DType::kBF16) {
        const std::uint16_t bits = float_to_bf16(value);
        std::memcpy(to, &bits, sizeof bits);
      } else {
        store_from_double(to, dtype, static_cast<double>(value));
      }
      to += size;
    }
  }
}

}  // namespace headroom
