// A libFuzzer target (https://llvm.org/docs/LibFuzzer.html). Any bytes either are a valid GGUF file, whose metadata and
// tensors can all be read, or are refused with an Error of one line. Built by cmake/fuzz.cmake; seeds are in
// tests/fuzz/gguf.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "io/gguf.hpp"

namespace {

/// Reads a value whole; the result depends on all of it.
std::uint64_t read_value(const headroom::GgufValue& value) {
  std::uint64_t sum = value.text() ? value.text()->size() : 0;
  if (value.integer()) sum += static_cast<std::uint64_t>(*value.integer());
  if (value.boolean()) sum += *value.boolean() ? 1 : 0;
  if (value.type() == headroom::GgufType::kArray)
    for (const headroom::GgufValue& element : value.elements(SIZE_MAX)) sum += read_value(element);
  return sum;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer asks for this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const headroom::GgufHeader header = headroom::parse_gguf_header(file, "input");
    std::uint64_t covered_bytes = 0;
    for (const headroom::GgufTensor& tensor : header.tensors) {
      HR_CHECK_LE(tensor.offset, size);
      HR_CHECK_LE(tensor.size_bytes, size - tensor.offset);
      HR_CHECK(header.find(tensor.name) == &tensor);
      covered_bytes += tensor.size_bytes;
      if (!tensor.format->is_read()) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.shape.numel()));
      headroom::unpack_blocks(*tensor.format, file.subspan(tensor.offset, tensor.size_bytes), values);
    }
    HR_CHECK_LE(covered_bytes + 24, size);  // no two tensors share bytes
    std::uint64_t sum = 0;
    for (const headroom::GgufEntry& entry : header.metadata) {
      sum += read_value(entry.value);
      HR_CHECK(header.find_metadata(entry.key) == &entry.value);
    }
    HR_CHECK(sum != 0x5EED5EED5EED5EEDU);  // uses the result of the reads, which the sanitizer checks
  } catch (const headroom::Error& error) {
    const std::string_view message = error.what();
    HR_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
  }
  return 0;
}
