// A libFuzzer target (https://llvm.org/docs/LibFuzzer.html). Any text, in two parts, must either be read as a trace or
// be rejected with an Error. Built by cmake/fuzz.cmake; seeds are in tests/fuzz/traces.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/text/mutated_json_fuzz.hpp"
#include "doctor/trace/trace_events.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer requires this name
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  // Every other time the text itself, for brackets and quotes that do not match.
  const std::size_t made = seed % 2 == 0 ? headroom::mutate_json(data, size, most, seed) : 0;
  return made != 0 ? made : LLVMFuzzerMutate(data, size, most);
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer requires this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    std::size_t events = 0;
    headroom::doctor::TraceSplitter splitter("fuzz", [&](const headroom::doctor::TraceEvent& event) {
      HR_CHECK(event.duration_us >= 0);
      ++events;
    });
    splitter.add(text.substr(0, size / 2));
    splitter.add(text.substr(size / 2));
    splitter.finish();
    HR_CHECK(events <= size);
  } catch (const headroom::Error&) {  // refused
  }
  return 0;
}
