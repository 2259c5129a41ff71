// A libFuzzer target (https://llvm.org/docs/LibFuzzer.html) for request lines. Each line either is a job that
// survives a round trip through writing and reading, or is refused with an Error of one line that JSON can hold.
// The values of options go through the same target: switches, sizes and LoRA files. Built by cmake/fuzz.cmake;
// seeds are in tests/fuzz/requests.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/switches.hpp"
#include "base/text/json.hpp"
#include "base/text/mutated_json_fuzz.hpp"
#include "base/text/utf8.hpp"
#include "cli/images/image_job.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer asks for this name
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const std::size_t made = headroom::mutate_json(data, size, most, seed);
  return made != 0 ? made : LLVMFuzzerMutate(data, size, most);
}

namespace {

using namespace headroom;

template <class Body>
void expect_error_or_none(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    HR_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer asks for this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  expect_error_or_none([&] {
    const nlohmann::json request = parse_json(text, "line 1 of the input");
    try {
      const nlohmann::json job = to_json(with_json({}, request, {"id", "out"}, "line 1 of the input"));
      HR_CHECK(to_json(with_json({}, job, {}, "again")) == job);
    } catch (const Error& error) {
      HR_CHECK(is_utf8(error.what()));
      throw;
    }
  });
  if (text.find('\n') != std::string::npos) return 0;
  expect_error_or_none([&] {
    const SwitchSet switches = SwitchSet::parse(text);
    HR_CHECK(SwitchSet::parse(switches.to_string()).to_string() == switches.to_string());
  });
  return 0;
}
