// A libFuzzer target (https://llvm.org/docs/LibFuzzer.html). Any bytes either are a JSON document that survives a
// round trip through writing and reading, or are refused with an Error of one line. Built by cmake/fuzz.cmake;
// seeds are in tests/fuzz/json.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/utf8.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer asks for this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const nlohmann::json value = headroom::parse_json(text, "input");
    HR_CHECK(value == nlohmann::json::parse(text));  // the library's result for accepted documents
    for (const int indent : {-1, 2})
      HR_CHECK(headroom::parse_json(headroom::dump_json(value, indent), "copy") == value);
  } catch (const headroom::Error& error) {
    const std::string_view message = error.what();
    HR_CHECK(message.starts_with("input ") && message.size() < 500);
    HR_CHECK(headroom::is_utf8(message) && message.find('\n') == std::string_view::npos);
  }
  return 0;
}
