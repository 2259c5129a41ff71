#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/tensors/dtype.hpp"

/// Counter-based random numbers: element i of a stream depends only on (seed, stream, i). Results therefore do
/// not depend on the number of threads, the order of calls or the platform.
namespace headroom {

/// Philox4x32 with ten rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
/// section 4.4): a keyed bijection on 128-bit counters, word 0 the lowest.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key);

/// Elements [offset, offset + out.size()) of a stream uniform in [0, 1), multiples of 2^-24.
void fill_uniform(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset = 0);

/// Elements [offset, offset + out.size()) of a stream of independent standard normals, by the Box-Muller transform
/// ("A note on the generation of random normal deviates", 1958) of 32-bit uniforms; no magnitude exceeds 6.8.
/// Logarithm, sine and cosine are implemented here in double precision, so that results do not depend on the C
/// library.
void fill_normal(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset = 0);

/// Normal numbers with a mean and a standard deviation: element i is mean + deviation * (element i of the stream),
/// in f32.
struct NormalStream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  float mean = 0;
  float deviation = 1;
};

/// Elements [offset, offset + count) of `from`, each rounded to `dtype`, a float; `out` may be unaligned. A GPU
/// generates the same bits (Backend::fill_normal).
void store_normal(void* out, DType dtype, std::uint64_t count, const NormalStream& from, std::uint64_t offset = 0);

}  // namespace headroom
