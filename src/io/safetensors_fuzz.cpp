// A libFuzzer target (https://llvm.org/docs/LibFuzzer.html). Any bytes either are a valid safetensors file, which
// its entries fill exactly, or are refused with an Error of one line. Built by cmake/fuzz.cmake; seeds are in
// tests/fuzz/safetensors.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "io/safetensors.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer asks for this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const headroom::SafetensorsHeader header = headroom::parse_safetensors_header(file, "input");
    std::uint64_t covered_bytes = 0;
    unsigned sum = 0;
    for (const auto& [name, tensor] : header.unread) {
      for (const std::byte byte : file.subspan(tensor.offset, tensor.size_bytes))
        sum += std::to_integer<unsigned>(byte);
      covered_bytes += tensor.size_bytes;
    }
    for (const auto& [name, entry] : header.entries) {
      HR_CHECK_EQ(entry.size_bytes, static_cast<std::uint64_t>(entry.shape.numel()) * headroom::size_of(entry.dtype));
      for (const std::byte byte : file.subspan(entry.offset, entry.size_bytes)) sum += std::to_integer<unsigned>(byte);
      covered_bytes += entry.size_bytes;
    }
    HR_CHECK_LE(sum, 255 * covered_bytes);  // uses the result of the reads, which the sanitizer checks
    HR_CHECK_LE(covered_bytes + 10, size);  // a length, "{}", and the data
  } catch (const headroom::Error& error) {
    const std::string_view message = error.what();
    HR_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
  }
  return 0;
}
