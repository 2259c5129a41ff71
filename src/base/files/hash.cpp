#include "base/files/hash.hpp"

#include <fmt/format.h>

#include <bit>

namespace headroom {

void Hasher::add_byte(std::uint8_t byte) {
  constexpr std::uint64_t kPrime = 0x100000001B3U;
  state_ = (state_ ^ byte) * kPrime;
}

Hasher& Hasher::add_word(std::uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<std::uint8_t>(word >> shift));
  return *this;
}

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  add_word(bytes.size());
  for (const std::byte byte : bytes) add_byte(static_cast<std::uint8_t>(byte));
  return *this;
}

Hasher& Hasher::add(double value) { return add_word(std::bit_cast<std::uint64_t>(value)); }

Hasher& Hasher::add(const Shape& shape) {
  add_word(static_cast<std::uint64_t>(shape.rank()));
  for (const std::int64_t extent : shape.dims()) add(extent);
  return *this;
}

std::uint64_t Hasher::digest() const {
  std::uint64_t h = state_;  // fmix64 of MurmurHash3 (Appleby)
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDU;
  h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53U;
  return h ^ (h >> 33);
}

std::string Hasher::hex() const { return fmt::format("{:016x}", digest()); }

}  // namespace headroom
