#include "io/safetensors.hpp"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>((length >> (8 * i)) & 0xFFU);
  return file.append(rest);
}

/// A file of this header and `data_bytes` bytes of data.
std::string make_file(std::string_view header, std::size_t data_bytes) {
  return with_length(header.size(), std::string(header) + std::string(data_bytes, '\1'));
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "f");
}

std::string error_in(const std::string& file) {
  return error_of([&] { (void)parse(file); });
}

/// The error in a file with one tensor "a" whose entry is `entry`, and 8 bytes of data.
std::string error_in_entry(std::string_view entry) {
  return error_in(make_file(fmt::format(R"({{"a":{}}})", entry), 8));
}

std::string two_tensors(std::string_view first, std::string_view second) {
  return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}},)"
                     R"("b":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}}}})",
                     first, second);
}

TEST(SafetensorsHeader, ReadsEntriesAndMetadata) {
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},"z":{"shape":[0,3],"data_offsets":[8,8],"dtype":"I64"}}  )";
  const SafetensorsHeader header = parse(make_file(text, 10));
  ASSERT_EQ(header.entries.size(), 3U);
  const SafetensorsEntry& b = header.entries.at("b");
  EXPECT_EQ(b.dtype, DType::kF32);
  EXPECT_EQ(b.shape, (Shape{2, 1}));
  EXPECT_EQ(b.offset, 8 + text.size());
  EXPECT_EQ(b.size_bytes, 8U);
  EXPECT_EQ(header.entries.at("a").shape, Shape{});
  EXPECT_EQ(header.entries.at("a").offset, 8 + text.size() + 8);
  EXPECT_EQ(header.entries.at("z").size_bytes, 0U);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, KnowsEveryDType) {
#define HR_DTYPE(enumerator, name, size, is_float, safetensors_name)                                     \
  EXPECT_EQ(parse(make_file(fmt::format(R"({{"a":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})", \
                                        safetensors_name, 3 * (size)),                                   \
                            3 * (size)))                                                                 \
                .entries.at("a")                                                                         \
                .dtype,                                                                                  \
            DType::enumerator);
#include "base/tensors/dtypes.def"
#undef HR_DTYPE
}

/// Bytes of 8 elements, as safetensors 0.8 counts them.
TEST(SafetensorsHeader, TakesTypesThatAreNotRead) {
  const std::map<std::string, std::size_t> types{{"I16", 16},        {"U16", 16},        {"U32", 32},    {"U64", 64},
                                                 {"C64", 64},        {"F8_E8M0", 8},     {"F6_E2M3", 6}, {"F6_E3M2", 6},
                                                 {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4}};
  for (const auto& [dtype, bytes] : types) {
    const auto with = [&, &dtype = dtype](std::size_t end) {
      return make_file(fmt::format(R"({{"a":{{"dtype":"{}","shape":[2,4],"data_offsets":[0,{}]}},)"
                                   R"("b":{{"dtype":"U8","shape":[2],"data_offsets":[{},{}]}}}})",
                                   dtype, end, end, end + 2),
                       end + 2);
    };
    const SafetensorsHeader header = parse(with(bytes));
    ASSERT_EQ(header.entries.size(), 1U) << dtype;
    EXPECT_EQ(header.entries.at("b").size_bytes, 2U);
    const UnreadTensor& unread = header.unread.at("a");
    EXPECT_EQ(unread.dtype, dtype);
    EXPECT_EQ(unread.shape, (Shape{2, 4}));
    EXPECT_EQ(unread.size_bytes, bytes);
    EXPECT_EQ(unread.offset + bytes, header.entries.at("b").offset);
    EXPECT_THAT(error_in(with(bytes + 1)),
                HasSubstr(fmt::format("the {} bytes of shape [2, 4] in {} was expected", bytes, dtype)));
  }
  EXPECT_EQ(error_in_entry(R"({"dtype":"F4","shape":[3,5],"data_offsets":[0,8]})"),
            "f: tensor \"a\": shape is [3,5], but whole bytes of 4 bits an element was expected");
  EXPECT_EQ(error_in_entry(R"({"dtype":"F6_E3M2","shape":[0,9223372036854775807],"data_offsets":[0,0]})"),
            "f: the tensors end at data byte 0, but the file has 8 data bytes");
  EXPECT_THAT(error_in_entry(R"({"dtype":"F4","shape":[4611686018427387904,4],"data_offsets":[0,8]})"),
              HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(error_in(make_file(R"({"a":{"dtype":"I16","shape":[1],"data_offsets":[0,2]},)"
                                 R"("a":{"dtype":"I16","shape":[1],"data_offsets":[2,4]}})",
                                 4)),
              HasSubstr("repeats the key \"a\""));
  EXPECT_THAT(error_in(make_file(R"({"a":{"dtype":"I16","shape":[1],"data_offsets":[0,2]},)"
                                 R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                 2)),
              HasSubstr("an overlap"));
}

TEST(SafetensorsHeader, TakesNullForNoMetadata) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  for (const std::string& text : {R"({"__metadata__":null,)" + entry + "}", "{" + entry + R"(,"__metadata__": null})",
                                  R"({"__metadata__":{},)" + entry + "}"}) {
    const SafetensorsHeader header = parse(make_file(text, 1));
    EXPECT_TRUE(header.metadata.empty());
    EXPECT_TRUE(header.entries.contains("a"));
  }
  EXPECT_EQ(error_in(make_file(R"({"__metadata__":null,"__metadata__":{}})", 0)),
            "the header of f repeats the key \"__metadata__\" in one object");
  EXPECT_EQ(error_in(make_file(R"({"__metadata__":{"k":null}})", 0)),
            "f: __metadata__ maps \"k\" to something that is not a string");
  EXPECT_THAT(error_in(make_file(R"({"a":null})", 0)), HasSubstr("its entry is null, but exactly dtype"));
}

TEST(SafetensorsHeader, AcceptsNoTensors) {
  EXPECT_TRUE(parse(make_file("{}", 0)).entries.empty());
  EXPECT_EQ(error_in(make_file("{}", 3)), "f: the tensors end at data byte 0, but the file has 3 data bytes");
}

TEST(SafetensorsHeader, RefusesALyingLength) {
  EXPECT_EQ(error_in(""), "f is not a safetensors file: it has 0 bytes, but at least 8 were expected");
  EXPECT_EQ(error_in("1234567"), "f is not a safetensors file: it has 7 bytes, but at least 8 were expected");
  EXPECT_EQ(error_in(with_length(3, "{}")), "f is truncated: its header should have 3 bytes, but only 2 are there");
  EXPECT_EQ(error_in(with_length(100'000'001, "{}")),
            "f is not a safetensors file: its header would have 100000001 bytes, but at most 100000000 are allowed");
  EXPECT_THAT(error_in(with_length(100'000'000, "{}")), StartsWith("f is truncated"));
  EXPECT_THAT(error_in(with_length(~std::uint64_t{0}, "{}")), HasSubstr("would have 18446744073709551615 bytes"));
  EXPECT_EQ(error_in("{\"dtype\": \"F32\"}"),
            "f is not a safetensors file: it begins with '{' as JSON does, but the length of a header was expected");
  EXPECT_EQ(error_in(with_length(0, "")), "f is not a safetensors file: its header does not begin with '{'");
}

TEST(SafetensorsHeader, RefusesWhatIsNotOneJsonObject) {
  EXPECT_THAT(error_in(make_file(" {}", 0)), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error_in(make_file("[]", 0)), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error_in(make_file("{", 0)), StartsWith("the header of f is not valid JSON at line 1, column 2: "));
  EXPECT_THAT(error_in(make_file("{}{}", 0)), StartsWith("the header of f is not valid JSON at line 1, column 3: "));
  EXPECT_THAT(error_in(make_file(std::string_view("{}\0\0", 4), 0)), HasSubstr("a NUL byte"));
  EXPECT_THAT(error_in(make_file("{\"\xFF\":1}", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_in(make_file("{\"\xED\xA0\x80\":1}", 0)), HasSubstr("not valid JSON"));  // a lone surrogate
  EXPECT_THAT(error_in(make_file("{\"a\":" + std::string(100000, '['), 0)), HasSubstr("nested deeper than 100"));
}

TEST(SafetensorsHeader, RefusesDuplicateKeys) {
  EXPECT_EQ(error_in(make_file(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                               R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                               8)),
            "the header of f repeats the key \"a\" in one object");
  EXPECT_EQ(error_in_entry(R"({"dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]})"),
            "the header of f repeats the key \"dtype\" in one object");
}

TEST(SafetensorsHeader, RefusesMalformedEntries) {
  EXPECT_EQ(error_in_entry("7"),
            "f: tensor \"a\": its entry is 7, but exactly dtype, shape and data_offsets was expected");
  EXPECT_THAT(error_in_entry(R"({"dtype":"U8","shape":[8]})"), HasSubstr("exactly dtype, shape and data_offsets"));
  EXPECT_THAT(error_in_entry(R"({"dtype":"U8","shape":[8],"offsets":[0,8]})"), HasSubstr("exactly dtype"));
  EXPECT_THAT(error_in_entry(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1})"), HasSubstr("exactly dtype"));
  EXPECT_EQ(error_in_entry(R"({"dtype":"F5","shape":[8],"data_offsets":[0,8]})"),
            "f: tensor \"a\": dtype is \"F5\", but one of F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I8, U8, "
            "BOOL, I16, U16, U32, U64, C64, F8_E8M0, F6_E2M3, F6_E3M2, F8_E4M3FNUZ, F8_E5M2FNUZ, F4 was expected");
  EXPECT_EQ(error_in_entry("[" + fmt::format("{}", fmt::join(std::vector<int>(300), ",")) + "]"),
            "f: tensor \"a\": its entry has more than 256 values, but exactly dtype, shape and data_offsets was "
            "expected");
  EXPECT_THAT(error_in_entry(R"({"dtype":3,"shape":[8],"data_offsets":[0,8]})"), HasSubstr("dtype is 3, but one of"));
}

TEST(SafetensorsHeader, RefusesBadShapes) {
  const auto error = [](std::string_view shape) {
    return error_in_entry(fmt::format(R"({{"dtype":"U8","shape":{},"data_offsets":[0,8]}})", shape));
  };
  EXPECT_EQ(error("8"), "f: tensor \"a\": shape is 8, but an array of non-negative integers was expected");
  EXPECT_EQ(error("[-8]"), "f: tensor \"a\": shape is [-8], but an array of non-negative 64-bit integers was expected");
  EXPECT_THAT(error("[8.0]"), HasSubstr("non-negative 64-bit integers"));
  EXPECT_THAT(error("[\"8\"]"), HasSubstr("non-negative 64-bit integers"));
  EXPECT_THAT(error("[9223372036854775808]"), HasSubstr("non-negative 64-bit integers"));
  EXPECT_THAT(error("[99999999999999999999]"), HasSubstr("non-negative 64-bit integers"));
  EXPECT_EQ(error("[1,1,1,1,1,1,1,1,8]"),
            "f: tensor \"a\": shape is [1,1,1,1,1,1,1,1,8], but at most 8 dimensions was expected");
  EXPECT_EQ(error("[4294967296,4294967296]"),
            "f: tensor \"a\": shape is [4294967296,4294967296], but fewer than 2^63 bytes was expected");
  EXPECT_THAT(error("[4611686018427387904,4,0]"), HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(error("[0,4611686018427387904,4]"), HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(error("[4611686018427387904,4,4,8]"), HasSubstr("fewer than 2^63 bytes"));  // wraps to 0
  EXPECT_EQ(error("[1,1,1,1,1,1,1,8]"), "(no error)");
}

TEST(SafetensorsHeader, RefusesBadOffsets) {
  const auto error = [](std::string_view offsets) {
    return error_in_entry(fmt::format(R"({{"dtype":"F32","shape":[2],"data_offsets":{}}})", offsets));
  };
  EXPECT_EQ(error("[0,8]"), "(no error)");
  EXPECT_EQ(error("[0]"), "f: tensor \"a\": data_offsets is [0], but two non-negative integers was expected");
  EXPECT_THAT(error("[0,8,8]"), HasSubstr("two non-negative integers"));
  EXPECT_THAT(error("[-8,0]"), HasSubstr("two non-negative integers"));
  EXPECT_THAT(error("[0,8.5]"), HasSubstr("two non-negative integers"));
  EXPECT_THAT(error("{}"), HasSubstr("two non-negative integers"));
  EXPECT_THAT(error("[8,0]"), HasSubstr("a begin that is not after the end"));
  EXPECT_EQ(
      error("[0,9]"),
      "f: tensor \"a\": data_offsets is [0,9], but an end of at most 8, the data bytes in the file, was expected");
  EXPECT_THAT(error("[18446744073709551608,18446744073709551615]"),
              HasSubstr("an end of at most 8, the data bytes in the file,"));
  EXPECT_EQ(error("[0,4]"), "f: tensor \"a\": data_offsets is [0,4], but the 8 bytes of shape [2] in F32 was expected");
}

TEST(SafetensorsHeader, RefusesOverlapsAndHoles) {
  EXPECT_EQ(error_in(make_file(two_tensors("0,4", "4,8"), 8)), "(no error)");
  EXPECT_EQ(error_in(make_file(two_tensors("4,8", "0,4"), 8)), "(no error)");
  EXPECT_EQ(error_in(make_file(two_tensors("0,4", "3,7"), 8)),
            "f: tensor \"b\" begins at data byte 3, but 4 was expected, where the tensor before it ends (an overlap)");
  EXPECT_THAT(error_in(make_file(two_tensors("0,4", "0,4"), 8)), HasSubstr("an overlap"));
  EXPECT_EQ(error_in(make_file(two_tensors("0,4", "5,9"), 9)),
            "f: tensor \"b\" begins at data byte 5, but 4 was expected, where the tensor before it ends (a hole)");
  EXPECT_THAT(error_in(make_file(two_tensors("1,5", "5,9"), 9)), HasSubstr("a hole"));
  EXPECT_EQ(error_in(make_file(two_tensors("0,4", "4,8"), 9)),
            "f: the tensors end at data byte 8, but the file has 9 data bytes");
  EXPECT_THAT(error_in(make_file(two_tensors("0,4", "4,8"), 7)),
              HasSubstr("an end of at most 7, the data bytes in the file,"));
}

TEST(SafetensorsHeader, PlacesEmptyTensorsAnywhereButInside) {
  const auto error = [](std::string_view offsets) {
    return error_in(make_file(fmt::format(R"({{"a":{{"dtype":"U8","shape":[8],"data_offsets":[0,8]}},)"
                                          R"("e":{{"dtype":"U8","shape":[0],"data_offsets":[{}]}}}})",
                                          offsets),
                              8));
  };
  EXPECT_EQ(error("0,0"), "(no error)");
  EXPECT_EQ(error("8,8"), "(no error)");
  EXPECT_THAT(error("4,4"), HasSubstr("an overlap"));
}

TEST(SafetensorsHeader, RefusesBadMetadata) {
  EXPECT_EQ(error_in(make_file(R"({"__metadata__":3})", 0)), "f: __metadata__ must map strings to strings");
  EXPECT_EQ(error_in(make_file(R"({"__metadata__":[]})", 0)), "f: __metadata__ must map strings to strings");
  EXPECT_EQ(error_in(make_file(R"({"__metadata__":{"k":{}}})", 0)),
            "f: __metadata__ maps \"k\" to something that is not a string");
  EXPECT_EQ(error_in(make_file(R"({"__metadata__":{"k":"a","k":"b"}})", 0)),
            "the header of f repeats the key \"k\" in one object");
  EXPECT_EQ(error_in(make_file(R"({"__metadata__":{"k":3}})", 0)),
            "f: __metadata__ maps \"k\" to something that is not a string");
}

TEST(SafetensorsHeader, NamesInMessagesAreEscapedAndShort) {
  EXPECT_THAT(error_in(make_file("{\"\\u001b[31m\xC3\xA9\":7}", 0)), StartsWith("f: tensor \"\\u001b[31m\\u00e9\": "));
  EXPECT_LT(error_in(make_file("{\"" + std::string(5000, 'x') + "\":7}", 0)).size(), 300U);
}

// Every single-byte change of a small file must be either read or refused with an Error; nothing else may happen.
TEST(SafetensorsHeader, SurvivesEveryByteFlip) {
  const std::string good = make_file(two_tensors("0,4", "4,8"), 8);
  ASSERT_EQ(error_in(good), "(no error)");
  for (std::size_t cut = 0; cut < good.size(); ++cut) EXPECT_NE(error_in(good.substr(0, cut)), "(no error)");
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      refused += error_in(bad) == "(no error)" ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 10000);
}

// The fuzzer's seeds, so that they are tried where there is no fuzzer.
TEST(SafetensorsHeader, ReadsOrRefusesTheFuzzSeeds) {
  int count = 0;
  for (const fs::directory_entry& seed : fs::directory_iterator(std::string(kSourceDir) + "/tests/fuzz/safetensors")) {
    const std::string name = seed.path().filename();
    const std::string error = error_in(read_file(seed.path()));
    EXPECT_EQ(error == "(no error)", name.starts_with("valid_")) << name << ": " << error;
    ++count;
  }
  EXPECT_GE(count, 50);
}

HostTensor make_tensor(DType dtype, const Shape& shape, int seed) {
  HostTensor tensor(dtype, shape);
  std::mt19937 generator(static_cast<unsigned>(seed));
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, static_cast<double>(generator() % 200) - 100.0);
  return tensor;
}

std::map<std::string, HostTensor> some_tensors() {
  return {{"b.weight", make_tensor(DType::kBF16, {3, 5}, 1)}, {"a.weight", make_tensor(DType::kF32, {2, 2, 2}, 2)},
          {"scalar", make_tensor(DType::kF64, {}, 3)},        {"flag", make_tensor(DType::kBool, {3}, 4)},
          {"empty", make_tensor(DType::kI64, {0, 4}, 5)},     {"quote\"\n\xC3\xA9", make_tensor(DType::kI8, {7}, 6)}};
}

TEST(Safetensors, RoundTrips) {
  const TempFolder folder;
  const auto tensors = some_tensors();
  const SafetensorsMetadata metadata{{"format", "pt"}, {"note", "a \"b\""}};
  write_safetensors(folder / "a.safetensors", tensors, metadata);
  const SafetensorsFile file = SafetensorsFile::open(folder / "a.safetensors");
  file.advise_sequential();
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(file.has(name));
    EXPECT_EQ(file.entry(name).offset % size_of(tensor.dtype()), 0U) << name;
    for (int pass = 0; pass < 2; ++pass) {  // after release() the tensor is read again
      const HostTensor back = file.read(name);
      EXPECT_EQ(back.dtype(), tensor.dtype());
      EXPECT_EQ(back.shape(), tensor.shape());
      EXPECT_TRUE(std::ranges::equal(back.bytes(), tensor.bytes())) << name;
      EXPECT_TRUE(std::ranges::equal(file.bytes(name), tensor.bytes())) << name;
      file.release(name);
    }
  }
  EXPECT_FALSE(file.has("missing"));
  EXPECT_EQ(error_of([&] { (void)file.read("missing"); }),
            (folder / "a.safetensors").string() + " has no tensor \"missing\"");
}

TEST(Safetensors, OnlyReadingATensorOfATypeThatIsNotReadIsAnError) {
  const TempFolder folder;
  const std::string path = (folder / "a.safetensors").string();
  write_file_atomically(path, make_file(R"({"x":{"dtype":"U16","shape":[2],"data_offsets":[0,4]},)"
                                        R"("y":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})",
                                        7));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_TRUE(file.has("x"));
  EXPECT_EQ(file.entries().size(), 1U);
  EXPECT_EQ(file.unread().size(), 1U);
  EXPECT_EQ(file.read("y").at(2), 1.0);
  const std::string error = path +
                            ": tensor \"x\" is U16, which is not read; expected one of F64, F32, F16, BF16, F8_E4M3, "
                            "F8_E5M2, I64, I32, I8, U8, BOOL";
  EXPECT_EQ(error_of([&] { (void)file.read("x"); }), error);
  EXPECT_EQ(error_of([&] { (void)file.bytes("x"); }), error);
  EXPECT_EQ(error_of([&] { (void)file.entry("x"); }), error);
}

TEST(Safetensors, WritesTheDocumentedBytes) {
  const TempFolder folder;
  HostTensor wide(DType::kF32, {1});
  wide.set(0, 1.0);
  HostTensor narrow(DType::kU8, {2});
  narrow.set(0, 7);
  narrow.set(1, 9);
  write_safetensors(folder / "a", {{"a", narrow}, {"b", wide}}, {{"k", "v"}});
  const std::string header = R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "a"), with_length(padded.size(), padded + std::string("\0\0\x80\x3F\x07\x09", 6)));
}

TEST(Safetensors, OpenNamesTheFile) {
  const TempFolder folder;
  const std::string path = (folder / "a").string();
  EXPECT_EQ(error_of([&] { (void)SafetensorsFile::open(path); }),
            "cannot read " + path + ": No such file or directory");
  write_file_atomically(path, "");
  EXPECT_THAT(error_of([&] { (void)SafetensorsFile::open(path); }), StartsWith(path + " is not a safetensors file"));
}

TEST(SafetensorsWriter, StreamsInPieces) {
  const TempFolder folder;
  const HostTensor a = make_tensor(DType::kF32, {10}, 1);
  const HostTensor b = make_tensor(DType::kU8, {3}, 2);
  SafetensorsWriter writer(folder / "f", {{"e1", DType::kF32, {0}},
                                          {"b", DType::kU8, {3}},
                                          {"a", DType::kF32, {10}},  // unaligned, as the format allows
                                          {"e2", DType::kF32, {2, 0}}});
  writer.write("b", b.bytes());
  for (std::size_t at = 0; at < 40; at += 8) writer.write("a", a.bytes().subspan(at, 8));
  EXPECT_FALSE(fs::exists(folder / "f"));
  writer.commit();
  const SafetensorsFile file = SafetensorsFile::open(folder / "f");
  EXPECT_EQ(file.entry("a").offset % 4, 3U);
  EXPECT_TRUE(std::ranges::equal(file.read("a").bytes(), a.bytes()));
  EXPECT_TRUE(std::ranges::equal(file.read("b").bytes(), b.bytes()));
  EXPECT_EQ(file.read("e2").shape(), (Shape{2, 0}));
}

TEST(SafetensorsWriter, SaysHowMuchAFullDiskLacks) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ(error_of([] {
              SafetensorsWriter("/dev/full", {{"a", DType::kF32, {1000, 1000}}});
            }),
            "cannot write /dev/full: no space left on /dev/full: 4000000 bytes needed")
      << "of all that was to come, though the header is written first";
}

TEST(SafetensorsWriter, HoldsItsUserToTheDeclaration) {
  const TempFolder folder;
  const std::vector<std::byte> bytes(16);
  const std::vector<TensorSpec> specs{{"a", DType::kF32, {2}}, {"b", DType::kF32, {2}}};
  {
    SafetensorsWriter writer(folder / "f", specs);
    EXPECT_THROW(writer.write("b", std::span(bytes).first(8)), std::logic_error);
    EXPECT_THROW(writer.write("a", std::span(bytes).first(9)), std::logic_error);
    writer.write("a", std::span(bytes).first(8));
    EXPECT_THROW(writer.commit(), std::logic_error);
    writer.write("b", std::span(bytes).first(8));
    EXPECT_THROW(writer.write("b", std::span(bytes).first(1)), std::logic_error);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const std::string begin = "cannot write " + (folder / "f").string() + ": ";
  EXPECT_EQ(error_of([&] {
              SafetensorsWriter(folder / "f", {specs[0], specs[0]});
            }),
            begin + "two tensors are called \"a\"");
  EXPECT_EQ(error_of([&] {
              SafetensorsWriter(folder / "f", {{"__metadata__", DType::kF32, {2}}});
            }),
            begin + "__metadata__ cannot name a tensor");
  EXPECT_THAT(error_of([&] { SafetensorsWriter(folder / "f", {{"\xFF", DType::kF32, {2}}}); }), HasSubstr("not UTF-8"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace headroom
