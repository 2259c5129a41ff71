#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace headroom {

/// Reads the fields of a protocol buffers message one by one, in the wire format
/// (https://protobuf.dev/programming-guides/encoding). Whatever a field's type, it is kept as it lies there.
class ProtobufReader {
 public:
  /// `context` names the message in an Error.
  ProtobufReader(std::string_view message, std::string_view context) : rest_(message), context_(context) {}

  enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  struct Field {
    std::uint32_t number = 0;
    Wire wire = Wire::kVarint;
    std::uint64_t value = 0;      ///< of a number, in its lowest bits
    std::string_view bytes = {};  ///< a string, or a message within the message

    [[nodiscard]] float as_float() const;
  };
  /// Nothing at the end. Throws Error where the message is broken.
  [[nodiscard]] std::optional<Field> next();

 private:
  [[nodiscard]] std::uint64_t take_varint();
  [[nodiscard]] std::string_view take(std::uint64_t count);

  std::string_view rest_;
  std::string_view context_;
};

}  // namespace headroom
