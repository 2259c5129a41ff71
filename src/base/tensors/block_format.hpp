#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace headroom {

/// A format of numbers in blocks: a fixed number of consecutive elements in a fixed number of bytes, with scales that
/// they share. Plain dtypes are blocks of one element. The formats are those of ggml, which GGUF files hold.
struct BlockFormat {
  std::uint32_t number;   ///< in GGUF files
  std::string_view name;  ///< "Q4_K"
  std::int64_t elements;  ///< of a block
  std::int64_t bytes;     ///< of a block
  /// Unpacks consecutive blocks to f32. Null for a format that is not read.
  void (*unpack)(const std::byte* blocks, std::int64_t count, float* values);

  [[nodiscard]] bool is_read() const noexcept { return unpack != nullptr; }
  /// Whether it is read, and a block has several elements.
  [[nodiscard]] bool is_packed() const noexcept { return is_read() && elements > 1; }
};

/// All formats, by number.
[[nodiscard]] std::span<const BlockFormat> block_formats() noexcept;
/// Null if there is no such format.
[[nodiscard]] const BlockFormat* find_block_format(std::uint32_t number) noexcept;
[[nodiscard]] const BlockFormat* find_block_format(std::string_view name) noexcept;

/// Unpacks whole blocks to f32. Each product and each sum is rounded once, in the order in which `gguf` (PyPI) computes
/// them. `values` has the elements of all blocks. Throws std::logic_error for other sizes and for a format that is not
/// read.
void unpack_blocks(const BlockFormat& format, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace headroom
