#include "text/readers/protobuf.hpp"

#include <bit>
#include <cstring>

#include "base/error.hpp"

namespace headroom {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

}  // namespace

float ProtobufReader::Field::as_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }

std::string_view ProtobufReader::take(std::uint64_t count) {
  if (count > rest_.size()) fail("{} is cut off: {} bytes are missing", context_, count - rest_.size());
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::uint64_t ProtobufReader::take_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) return value;
  }
  fail("{} is broken: a number has more than 64 bits", context_);
}

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  const std::uint64_t tag = take_varint();
  Field field{.number = static_cast<std::uint32_t>(tag >> 3U), .wire = static_cast<Wire>(tag & 7U)};
  switch (field.wire) {
    case Wire::kVarint:
      field.value = take_varint();
      return field;
    case Wire::kFixed64:
      field.value = little_endian(take(8));
      return field;
    case Wire::kBytes:
      field.bytes = take(take_varint());
      return field;
    case Wire::kFixed32:
      field.value = little_endian(take(4));
      return field;
  }
  fail("{} is broken: a field is of the type {}", context_, tag & 7U);
}

}  // namespace headroom
