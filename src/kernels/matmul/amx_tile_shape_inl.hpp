#pragma once

// For x86 with AMX, in files that name their attributes: the shape in which our kernels use tiles.

#if defined(__x86_64__)
#include <immintrin.h>

#include <atomic>
#include <cstdint>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("amx-tile")
namespace headroom::amx {

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
/// Not on the stack: GCC's intrinsic declares only the first 8 bytes as read, so the rest would not be stored.
inline constexpr TileConfig kTileConfig;

/// Configures the calling thread's tiles to 16 rows of 64 bytes during its lifetime. Nothing else may use tiles
/// meanwhile.
class [[nodiscard]] TileShape {
 public:
  TileShape() { _tile_loadconfig(&kTileConfig); }
  ~TileShape() { _tile_release(); }
  TileShape(const TileShape&) = delete;
  TileShape& operator=(const TileShape&) = delete;
};

/// Compilers do not see that tile loads and stores touch memory.
inline void order_memory() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

#endif
