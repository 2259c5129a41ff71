// Heap use of reading headers of weights, counted, so that it is the same on every machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/test_util.hpp"
#include "io/gguf.hpp"
#include "io/safetensors.hpp"

namespace {

std::atomic<std::size_t> live_bytes{0};
std::atomic<std::size_t> peak_bytes{0};

}  // namespace

#ifndef __SANITIZE_ADDRESS__  // whose allocator is not malloc
// Not inlined: GCC would warn that malloc and delete, or new and free, do not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) throw std::bad_alloc();
  const std::size_t now = live_bytes += malloc_usable_size(data);
  std::size_t peak = peak_bytes;
  while (peak < now && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return data;
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  if (data != nullptr) live_bytes -= malloc_usable_size(data);
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t /*bytes*/) noexcept { operator delete(data); }
#endif

namespace headroom {
namespace {

class HeaderMemory : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the sanitizer has the allocator";
#endif
  }
};
using SafetensorsHeaderMemory = HeaderMemory;
using GgufHeaderMemory = HeaderMemory;

constexpr std::size_t kAlways = std::size_t{1} << 20;  // for a small header

/// The peak memory of reading a file with `parse`; `error` receives the error message.
template <typename Parse>
std::size_t peak_of_reading(const std::string& file, std::string& error, const Parse& parse) {
  const std::size_t before = live_bytes;
  peak_bytes = before;
  error = error_of([&] { (void)parse(std::as_bytes(std::span(file)), "f"); });
  return peak_bytes - before;
}

std::string little(std::uint64_t value, std::size_t bytes = 8) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((value >> (8 * i)) & 0xFFU);
  return text;
}

/// Of a safetensors header as a file without data.
std::size_t peak_of(const std::string& header, std::string& error) {
  return peak_of_reading(little(header.size()) + header, error, parse_safetensors_header);
}

std::size_t peak_of_gguf(std::uint64_t tensors, std::uint64_t metadata, const std::string& rest, std::string& error) {
  return peak_of_reading("GGUF" + little(3, 4) + little(tensors) + little(metadata) + rest, error, parse_gguf_header);
}

/// `count` members, as `write` gives each.
template <typename Write>
std::string object_of(int count, const Write& write) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    text += write(i);
  }
  return text + "}";
}

TEST_F(SafetensorsHeaderMemory, IsCounted) {
  std::string error;
  const std::size_t before = live_bytes;
  {
    const std::string text(1'000'000, 'x');
    EXPECT_GE(live_bytes - before, 1'000'000U);
  }
  EXPECT_EQ(live_bytes, before);
  EXPECT_GT(peak_of("{}", error), 0U);
}

TEST_F(SafetensorsHeaderMemory, OfAHundredThousandTensorsIsBounded) {
  const std::string header = object_of(
      100'000, [](int i) { return fmt::format(R"("{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i); });
  std::string error;
  EXPECT_LE(peak_of(header, error), 10 * header.size());
  EXPECT_EQ(error, "(no error)");
}

TEST_F(SafetensorsHeaderMemory, OfWhatIsNoneIsBounded) {
  std::string digits;
  for (int i = 0; i < 2'000'000; ++i) digits += "0,";
  const std::string headers[] = {
      // the shortest possible metadata
      "{\"__metadata__\":" + object_of(300'000, [](int i) { return fmt::format("\"{:x}\":\"\"", i); }) + "}",
      // an entry that is an endless list, only brackets, or an object of many members
      "{\"a\":[" + digits + "0]}",
      "{\"a\":" + object_of(300'000, [](int i) { return fmt::format("\"{:x}\":{{}}", i); }) + "}",
      "{\"a\":{\"shape\":[" + digits + "0]}}",
      // one long text
      "{\"__metadata__\":{\"a\":\"" + std::string(5'000'000, 'x') + "\"}}",
      "{\"" + std::string(5'000'000, 'x') + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
  };
  for (const std::string& header : headers) {
    std::string error;
    EXPECT_LE(peak_of(header, error), 10 * header.size() + kAlways) << header.substr(0, 40);
  }
}

TEST_F(SafetensorsHeaderMemory, OrdinaryMetadataAreNotTooMany) {
  std::string error;
  // More than any trainer writes, of ordinary lengths.
  const std::string header =
      "{\"__metadata__\":" + object_of(100'000, [](int i) { return fmt::format("\"ss_tag_{}\":\"value {}\"", i, i); }) +
      "}";
  EXPECT_LE(peak_of(header, error), 10 * header.size());
  EXPECT_EQ(error, "(no error)");
  (void)peak_of("{\"__metadata__\":" + object_of(5000, [](int i) { return fmt::format("\"{:x}\":\"\"", i); }) + "}",
                error);
  EXPECT_EQ(error, "(no error)") << "a small header of short ones";
  (void)peak_of("{\"__metadata__\":" + object_of(300'000, [](int i) { return fmt::format("\"{:x}\":\"\"", i); }) + "}",
                error);
  EXPECT_THAT(error, testing::HasSubstr("texts, which are too many for a header of"));
}

constexpr std::size_t kMost = std::size_t{64} << 20;

TEST_F(GgufHeaderMemory, OfTheLargestHeaderIsBounded) {
  constexpr std::uint64_t kTensors = 262'144, kMetadata = 65'536;
  std::string rest;
  for (std::uint64_t i = 0; i < kMetadata; ++i) rest += little(8) + little(i) + little(0, 4) + "v";
  for (std::uint64_t i = 0; i < kTensors; ++i)
    rest += little(8) + little(i) + little(0, 4) + little(24, 4) + little(32 * i);
  std::string error;
  EXPECT_LE(peak_of_gguf(kTensors, kMetadata, rest, error), kMost);
  EXPECT_THAT(error, testing::HasSubstr("has 1 bytes from data byte 0, but the file has 0 data bytes"));
  rest += std::string(32 * kTensors + 32, '\1');
  EXPECT_LE(peak_of_gguf(kTensors, kMetadata, rest, error), kMost);
  EXPECT_EQ(error, "(no error)");
}

TEST_F(GgufHeaderMemory, OfWhatIsNoneIsBounded) {
  std::string error;
  // counts that the file could hold, but that are too many
  EXPECT_LE(peak_of_gguf(1'000'000, 0, std::string(24'000'000, '\0'), error), kAlways);
  EXPECT_THAT(error, testing::HasSubstr("at most 262144 are read"));
  EXPECT_LE(peak_of_gguf(0, 1'000'000'000, std::string(24'000'000, '\0'), error), kAlways);
  // a million texts, and as many empty arrays
  for (const auto& [type, bytes] :
       {std::pair<std::uint64_t, std::size_t>(8, 8), std::pair<std::uint64_t, std::size_t>(9, 12)}) {
    const std::string array = little(type, 4) + little(1'000'000) + std::string(bytes * 1'000'000, '\0');
    EXPECT_LE(peak_of_gguf(0, 1, little(1) + "k" + little(9, 4) + array, error), kAlways);
    EXPECT_EQ(error, "(no error)");
  }
  // one long text, in a header of which only so much is read
  const auto text = [](std::size_t bytes) {
    return little(1) + "k" + little(8, 4) + little(bytes) + std::string(bytes, 'x');
  };
  EXPECT_LE(peak_of_gguf(0, 1, text(99'000'000), error), kAlways);
  EXPECT_EQ(error, "(no error)");
  EXPECT_LE(peak_of_gguf(0, 1, text(101'000'000), error), kAlways);
  EXPECT_THAT(error,
              testing::HasSubstr("a text has 101000000 bytes, but the header of a file may have 100000000 in all"));
}

}  // namespace
}  // namespace headroom
