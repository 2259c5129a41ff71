#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/tensors/dtype.hpp"
#include "base/tensors/shape.hpp"

namespace headroom {

/// A 64-bit hash that is equal on every platform and in every version, so that it may be stored: keys of subgraphs,
/// hashes of measured work. FNV-1a (Fowler, Noll, Vo) over a serialization in which strings include their lengths
/// ("ab", "c" differs from "a", "bc"). MurmurHash3's finalizer follows, because FNV alone mixes its low bits badly.
/// Not for adversarial input.
class Hasher {
 public:
  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  /// Integers, bools and enums are hashed as 8 bytes, so their width does not matter.
  template <typename T>
    requires std::integral<T> || std::is_enum_v<T>
  Hasher& add(T value) {
    return add_word(static_cast<std::uint64_t>(value));
  }
  /// Hashes the bit pattern: -0 and +0 differ.
  Hasher& add(double value);
  /// Hashes the name, so that reordering dtypes.def changes no hash.
  Hasher& add(DType dtype) { return add(name_of(dtype)); }
  Hasher& add(const Shape& shape);

  [[nodiscard]] std::uint64_t digest() const;
  /// The digest in 16 hexadecimal digits.
  [[nodiscard]] std::string hex() const;

 private:
  Hasher& add_word(std::uint64_t word);
  void add_byte(std::uint8_t byte);

  std::uint64_t state_ = 0xCBF29CE484222325U;  // FNV's offset basis
};

}  // namespace headroom
