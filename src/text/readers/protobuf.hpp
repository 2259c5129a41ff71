#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace headroom {

/// Reads the fields of a protocol buffers message one by one, in the wire format
/// (https://protobuf.dev/programming-guides/encoding). Fields of any type are returned in raw form.
class ProtobufReader {
 public:
  /// `context` names the message in an Error.
  ProtobufReader(std::string_view message, std::string_view context) : rest_(message), context_(context) {}

  enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  struct Field {
    std::uint32_t number = 0;
    Wire wire = Wire::kVarint;
    std::uint64_t value = 0;      ///< the raw bits of a number
    std::string_view bytes = {};  ///< a string, or a nested message

    [[nodiscard]] float as_float() const;
  };
  /// Empty at the end. Throws Error if the message is broken.
  [[nodiscard]] std::optional<Field> next();

 private:
  [[nodiscard]] std::uint64_t take_varint();
  [[nodiscard]] std::string_view take(std::uint64_t count);

  std::string_view rest_;
  std::string_view context_;
};

}  // namespace headroom
