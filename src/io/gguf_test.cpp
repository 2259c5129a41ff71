#include "io/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/gguf_writer.hpp"
#include "io/safetensors.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// The bytes of a file, appended value by value.
class FileText {
 public:
  template <typename T>
  FileText& add(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    text_.append(bytes, sizeof value);
    return *this;
  }
  FileText& u32(std::uint32_t value) { return add(value); }
  FileText& u64(std::uint64_t value) { return add(value); }
  FileText& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  FileText& text(std::string_view value) { return u64(value.size()).raw(value); }
  /// A metadata entry up to its value.
  FileText& key(std::string_view name, GgufType type) { return text(name).u32(static_cast<std::uint32_t>(type)); }
  /// A tensor's entry.
  FileText& tensor(std::string_view name, std::initializer_list<std::uint64_t> innermost_first, std::uint32_t type,
                   std::uint64_t offset) {
    text(name).u32(static_cast<std::uint32_t>(innermost_first.size()));
    for (const std::uint64_t extent : innermost_first) u64(extent);
    return u32(type).u64(offset);
  }
  /// Up to the data, and those.
  FileText& data(std::size_t bytes, std::size_t alignment = 32) {
    while (text_.size() % alignment != 0) text_ += '\0';
    text_.append(bytes, '\1');
    return *this;
  }
  [[nodiscard]] const std::string& str() const { return text_; }

 private:
  std::string text_;
};

FileText start(std::uint64_t tensors, std::uint64_t metadata, std::uint32_t version = 3) {
  FileText file;
  file.raw("GGUF").u32(version).u64(tensors).u64(metadata);
  return file;
}

constexpr std::uint32_t kF32 = 0, kF16 = 1, kQ8_0 = 8, kIq2Xs = 17;

/// The header has views of `file`.
GgufHeader parse_gguf(const std::string& file) { return parse_gguf_header(std::as_bytes(std::span(file)), "f"); }
std::string gguf_error_in(const std::string& file) {
  return error_of([&] { (void)parse_gguf(file); });
}

/// The error in a file with one tensor "a", and 64 bytes of data.
std::string error_in_tensor(std::initializer_list<std::uint64_t> innermost_first, std::uint32_t type = kF32,
                            std::uint64_t offset = 0) {
  return gguf_error_in(start(1, 0).tensor("a", innermost_first, type, offset).data(64).str());
}

/// The error in a file with one metadata entry "k", whose value is `value`.
std::string error_in_value(GgufType type, const FileText& value) {
  return gguf_error_in(start(0, 1).key("k", type).raw(value.str()).str());
}

TEST(GgufHeader, ReadsTensors) {
  for (const std::uint32_t version : {2U, 3U}) {
    const std::string file = start(4, 0, version)
                                 .tensor("w", {32, 3}, kQ8_0, 32)
                                 .tensor("conv", {3, 1, 2, 1}, kF16, 160)
                                 .tensor("scalar", {}, kF32, 0)
                                 .tensor("other", {256}, kIq2Xs, 192)
                                 .data(192 + 74)
                                 .str();
    const GgufHeader header = parse_gguf(file);
    EXPECT_EQ(header.version, version);
    EXPECT_EQ(header.alignment, 32U);
    EXPECT_TRUE(header.metadata.empty()) << "as in files of stable-diffusion.cpp";
    EXPECT_FALSE(header.part);
    ASSERT_EQ(header.tensors.size(), 4U);
    const std::uint64_t data = file.size() - (192 + 74);
    const GgufTensor& w = *header.find("w");
    EXPECT_EQ(w.shape, (Shape{3, 32}));
    EXPECT_EQ(w.format->name, "Q8_0");
    EXPECT_EQ(w.offset, data + 32);
    EXPECT_EQ(w.size_bytes, 3 * 34U);
    EXPECT_EQ(header.find("conv")->shape, (Shape{1, 2, 1, 3}));
    EXPECT_EQ(header.find("conv")->size_bytes, 12U);
    EXPECT_EQ(header.find("scalar")->shape, Shape());
    EXPECT_EQ(header.find("scalar")->size_bytes, 4U);
    EXPECT_FALSE(header.find("other")->format->is_read());
    EXPECT_EQ(header.find("other")->size_bytes, 74U);
    EXPECT_EQ(header.find("x"), nullptr);
  }
}

TEST(GgufHeader, NamesPointIntoTheFile) {
  const std::string file = start(1, 1).key("k", GgufType::kText).text("v").tensor("a", {1}, kF32, 0).data(4).str();
  const GgufHeader header = parse_gguf(file);
  for (const std::string_view text : {header.tensors[0].name, header.metadata[0].key, *header.metadata[0].value.text()})
    EXPECT_TRUE(text.data() >= file.data() && text.data() < file.data() + file.size()) << text;
}

TEST(GgufHeader, ReadsMetadataOfEveryType) {
  const std::string file = start(0, 8)
                               .key("i8", GgufType::kI8)
                               .add<std::int8_t>(-5)
                               .key("u64", GgufType::kU64)
                               .u64(~std::uint64_t{0})
                               .key("f32", GgufType::kF32)
                               .add(0.5F)
                               .key("bool", GgufType::kBool)
                               .add<std::uint8_t>(1)
                               .key("text", GgufType::kText)
                               .text("a\nb")
                               .key("numbers", GgufType::kArray)
                               .u32(static_cast<std::uint32_t>(GgufType::kI16))
                               .u64(3)
                               .add<std::int16_t>(1)
                               .add<std::int16_t>(-2)
                               .add<std::int16_t>(3)
                               .key("nested", GgufType::kArray)
                               .u32(static_cast<std::uint32_t>(GgufType::kArray))
                               .u64(2)
                               .u32(static_cast<std::uint32_t>(GgufType::kText))
                               .u64(1)
                               .text("one")
                               .u32(static_cast<std::uint32_t>(GgufType::kU8))
                               .u64(2)
                               .raw("\5\6")
                               .key("last", GgufType::kU32)
                               .u32(7)
                               .str();
  const GgufHeader header = parse_gguf(file);
  EXPECT_EQ(header.find_metadata("i8")->integer(), -5);
  EXPECT_EQ(header.find_metadata("i8")->number(), -5.0);
  EXPECT_FALSE(header.find_metadata("i8")->text());
  EXPECT_FALSE(header.find_metadata("u64")->integer()) << "does not fit";
  EXPECT_EQ(header.find_metadata("u64")->large_integer(), ~std::uint64_t{0});
  EXPECT_EQ(header.find_metadata("u64")->number(), 18446744073709551616.0);
  EXPECT_EQ(header.find_metadata("f32")->number(), 0.5);
  EXPECT_EQ(header.find_metadata("bool")->boolean(), true);
  EXPECT_FALSE(header.find_metadata("bool")->integer());
  EXPECT_EQ(header.find_metadata("text")->text(), "a\nb");
  const GgufValue& numbers = *header.find_metadata("numbers");
  EXPECT_EQ(numbers.element_type(), GgufType::kI16);
  EXPECT_EQ(numbers.count(), 3U);
  ASSERT_EQ(numbers.elements(2).size(), 2U);
  EXPECT_EQ(numbers.elements(9)[1].integer(), -2);
  const std::vector<GgufValue> nested = header.find_metadata("nested")->elements(9);
  ASSERT_EQ(nested.size(), 2U);
  EXPECT_EQ(nested[0].elements(9).at(0).text(), "one");
  EXPECT_EQ(nested[1].elements(9).at(1).integer(), 6);
  EXPECT_EQ(header.find_metadata("last")->integer(), 7);
  EXPECT_EQ(header.find_metadata("none"), nullptr);
}

// The writer of gguf 0.19 and its values of random blocks in every format, bit for bit.
TEST(Gguf, ReadsWhatTheReferenceWrites) {
  const fs::path folder = fs::path(kSourceDir) / "tests/goldens/gguf";
  const GgufFile file = GgufFile::open(folder / "blocks.gguf");
  const SafetensorsFile expected = SafetensorsFile::open(folder / "blocks.safetensors");
  ASSERT_EQ(file.header().tensors.size(), expected.entries().size());
  for (const GgufTensor& tensor : file.header().tensors) {
    const std::string name(tensor.name);
    EXPECT_EQ(name, tensor.format->name);
    const HostTensor values = file.unpack(tensor), golden = expected.read(name);
    ASSERT_EQ(values.shape(), golden.shape()) << name;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float actual = values.as<float>()[at], wanted = golden.as<float>()[at];
      if (std::isnan(wanted))
        EXPECT_TRUE(std::isnan(actual)) << name << " " << i;
      else
        EXPECT_EQ(std::bit_cast<std::uint32_t>(actual), std::bit_cast<std::uint32_t>(wanted)) << name << " " << i;
    }
    file.release(tensor);
    EXPECT_EQ(file.bytes(tensor).size(), tensor.size_bytes);
  }
  const auto integer = [&](std::string_view key) { return file.header().find_metadata(key)->integer(); };
  EXPECT_EQ(file.header().find_metadata("general.architecture")->text(), "golden");
  EXPECT_EQ(integer("type.u8"), 200);
  EXPECT_EQ(integer("type.i8"), -100);
  EXPECT_EQ(integer("type.u16"), 60000);
  EXPECT_EQ(integer("type.i16"), -30000);
  EXPECT_EQ(integer("type.u32"), 4000000000);
  EXPECT_EQ(integer("type.i32"), -2000000000);
  EXPECT_EQ(integer("type.i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(file.header().find_metadata("type.u64")->number(), 0x1p64);
  EXPECT_EQ(file.header().find_metadata("type.f32")->number(), 0.1F);
  EXPECT_EQ(file.header().find_metadata("type.f64")->number(), 0.1);
  EXPECT_EQ(file.header().find_metadata("type.bool")->boolean(), true);
  EXPECT_EQ(file.header().find_metadata("type.string")->text(), "a \xC3\xA9 \"b\"\n");
  EXPECT_EQ(file.header().find_metadata("type.integers")->elements(9).at(0).integer(), -1);
  EXPECT_EQ(file.header().find_metadata("type.texts")->elements(9).at(2).text(), "three");
}

TEST(Gguf, OnlyReadingATensorOfATypeThatIsNotReadIsAnError) {
  const TempFolder folder;
  write_file_atomically(folder / "a.gguf",
                        start(2, 0).tensor("a", {2}, kF32, 0).tensor("b", {256}, kIq2Xs, 32).data(32 + 74).str());
  const GgufFile file = GgufFile::open(folder / "a.gguf");
  EXPECT_EQ(file.unpack(file.tensor("a")).numel(), 2);
  EXPECT_THAT(error_of([&] { (void)file.unpack(file.tensor("b")); }),
              HasSubstr("a.gguf: tensor \"b\" is IQ2_XS, which is not read; expected one of F32, F16, Q4_0"));
  EXPECT_THAT(error_of([&] { (void)file.tensor("c"); }), HasSubstr("a.gguf has no tensor \"c\""));
}

TEST(GgufHeader, AlignmentIsAnyPowerOfTwo) {
  const auto file = [](std::uint32_t alignment, std::uint64_t offset) {
    return start(2, 1)
        .key("general.alignment", GgufType::kU32)
        .u32(alignment)
        .tensor("a", {1}, kF32, 0)
        .tensor("b", {1}, kF32, offset)
        .data(offset + 4, alignment)
        .str();
  };
  for (const std::uint32_t alignment : {1U, 2U, 8U, 64U, 4096U}) {
    const std::uint64_t offset = alignment < 4 ? 5 * alignment : alignment;
    const std::string text = file(alignment, offset);
    const GgufHeader header = parse_gguf(text);
    EXPECT_EQ(header.alignment, alignment);
    EXPECT_EQ(header.find("a")->offset, text.size() - offset - 4);
    EXPECT_EQ(header.find("a")->offset % alignment, 0U);
    EXPECT_EQ(header.find("b")->offset, text.size() - 4);
  }
  EXPECT_EQ(gguf_error_in(file(64, 32)),
            "f: tensor 2 of 2 (\"b\") at byte 90: the offset is 32, but a multiple of the "
            "file's alignment, 64, was expected");
  const auto with_alignment = [](GgufType type, std::uint64_t value, std::size_t bytes) {
    FileText text = start(0, 1).key("general.alignment", type);
    return gguf_error_in(text.raw(FileText().u64(value).str().substr(0, bytes)).str());
  };
  for (const std::uint32_t bad : {0U, 3U, 48U, 0xFFFFFFFFU})
    EXPECT_EQ(with_alignment(GgufType::kU32, bad, 4),
              fmt::format("f: general.alignment is {}, but a power of two was expected", bad));
  EXPECT_EQ(with_alignment(GgufType::kU64, 32, 8), "f: general.alignment is of type u64, but u32 was expected");
  EXPECT_EQ(with_alignment(GgufType::kU32, 0x80000000U, 4), "(no error)") << "there are no data";
}

TEST(GgufHeader, KnowsThePartsOfASplitFile) {
  const auto part = [](std::uint16_t number, std::uint16_t count) {
    return start(0, 2).key("split.no", GgufType::kU16).add(number).key("split.count", GgufType::kU16).add(count).str();
  };
  ASSERT_TRUE(parse_gguf(part(1, 3)).part);
  EXPECT_EQ(parse_gguf(part(1, 3)).part->number, 2);
  EXPECT_EQ(parse_gguf(part(1, 3)).part->count, 3);
  EXPECT_FALSE(parse_gguf(part(0, 1)).part);
  EXPECT_EQ(gguf_error_in(part(3, 3)), "f: split.no is 3, but split.count is 3");
  EXPECT_EQ(gguf_error_in(start(0, 1).key("split.count", GgufType::kText).text("2").str()),
            "f: split.count is no number of parts");
}

TEST(GgufHeader, RestoresShapesThatComfyUiFlattened) {
  const auto file = [](GgufType type, std::initializer_list<std::int32_t> extents) {
    FileText text = start(1, 1);
    text.key("comfy.gguf.orig_shape.conv.weight", GgufType::kArray)
        .u32(static_cast<std::uint32_t>(type))
        .u64(extents.size());
    for (const std::int32_t extent : extents) text.add(extent);
    return text.tensor("conv.weight", {32, 9}, kQ8_0, 0).data(9 * 34).str();
  };
  const std::string text = file(GgufType::kI32, {4, 8, 3, 3});
  EXPECT_EQ(parse_gguf(text).find("conv.weight")->shape, (Shape{4, 8, 3, 3}));
  EXPECT_EQ(parse_gguf(text).find("conv.weight")->size_bytes, 9 * 34U);
  const std::string expected = ", but the extents of tensor \"conv.weight\" were expected, 288 elements";
  const std::string key = "f: \"comfy.gguf.orig_shape.conv.weight\" ";
  EXPECT_EQ(gguf_error_in(file(GgufType::kI32, {4, 8, 3, 2})), key + "is [4, 8, 3, 2]" + expected);
  EXPECT_EQ(gguf_error_in(file(GgufType::kI32, {-4, 8, -3, 3})), key + "has an element that is no extent" + expected);
  EXPECT_EQ(gguf_error_in(file(GgufType::kF32, {4, 8, 3, 3})), key + "has an element that is no extent" + expected);
  EXPECT_EQ(gguf_error_in(file(GgufType::kI32, {288, 1, 1, 1, 1, 1, 1, 1, 1})),
            key + "is not an array of at most 8 integers" + expected);
}

TEST(GgufHeader, RefusesOtherFiles) {
  EXPECT_EQ(gguf_error_in(""), "f is not a GGUF file: it has 0 bytes, but at least 24 were expected");
  EXPECT_EQ(gguf_error_in(std::string(40, 'x')),
            "f is not a GGUF file: it begins with \"xxxx\", but \"GGUF\" was expected");
  EXPECT_EQ(gguf_error_in(start(0, 0, 1).str()), "f is a GGUF file of version 1, but version 2 or 3 was expected");
  EXPECT_EQ(gguf_error_in(start(0, 0, 4).str()), "f is a GGUF file of version 4, but version 2 or 3 was expected");
  EXPECT_EQ(gguf_error_in(start(0, 0, 0).str()), "f is a GGUF file of version 0, but version 2 or 3 was expected");
  EXPECT_EQ(gguf_error_in(start(0, 0, 0x03000000U).str()),
            "f is a GGUF file in big-endian byte order, but little-endian was expected");
  EXPECT_EQ(gguf_error_in(start(0, 0).str()), "(no error)");
  EXPECT_TRUE(is_gguf(std::as_bytes(std::span(start(0, 0).str()))));
  EXPECT_FALSE(is_gguf({}));
}

TEST(GgufHeader, RefusesCountsThatTheFileCannotHold) {
  EXPECT_EQ(gguf_error_in(start(1'000'000'000, 0).str()),
            "f: the header has 1000000000 tensors, but at most 262144 are read");
  EXPECT_EQ(gguf_error_in(start(0, 1'000'000'000).str()),
            "f: the header has 1000000000 metadata, but at most 65536 are read");
  EXPECT_EQ(gguf_error_in(start(~std::uint64_t{0}, 0).str()),
            "f: the header has 18446744073709551615 tensors, but at most 262144 are read");
  EXPECT_EQ(gguf_error_in(start(1000, 0).raw(std::string(100, '\0')).str()),
            "f: the header has 1000 tensors, but the 108 bytes after that hold fewer");
  EXPECT_EQ(gguf_error_in(start(4, 4).raw(std::string(100, '\0')).str()),
            "f: the header has 4 tensors and 4 metadata, but the 100 bytes after that hold fewer");
}

TEST(GgufHeader, RefusesLyingLengths) {
  EXPECT_EQ(gguf_error_in(start(0, 1).u64(std::uint64_t{1} << 60).raw(std::string(20, 'x')).str()),
            "f: metadata 1 of 1 at byte 24: the key has 1152921504606846976 bytes, but at most 65535 were expected");
  EXPECT_EQ(gguf_error_in(start(0, 1).u64(50).raw(std::string(20, 'x')).str()),
            "f: metadata 1 of 1 at byte 24: the key has 50 bytes, but the file ends 20 bytes after its begin");
  EXPECT_EQ(
      error_in_value(GgufType::kText, FileText().u64(std::uint64_t{1} << 60).raw("abc")),
      "f: metadata 1 of 1 (\"k\") at byte 24: a text has 1152921504606846976 bytes, but the file ends 3 bytes after "
      "its begin");
  const auto array = [](GgufType type, std::uint64_t count) {
    return error_in_value(GgufType::kArray, FileText().u32(static_cast<std::uint32_t>(type)).u64(count).raw("abcd"));
  };
  EXPECT_EQ(
      array(GgufType::kU8, 5),
      "f: metadata 1 of 1 (\"k\") at byte 24: an array has 5 elements of type u8, but the 4 bytes after that hold "
      "fewer");
  for (const GgufType type : {GgufType::kU64, GgufType::kText, GgufType::kArray})
    EXPECT_THAT(array(type, std::uint64_t{1} << 61),
                HasSubstr("an array has 2305843009213693952 elements of type " + std::string(name_of(type))));
  EXPECT_EQ(error_in_value(GgufType::kF64, FileText().u32(1)),
            "f: metadata 1 of 1 (\"k\") at byte 24: the value has 8 bytes, but the file ends 4 bytes after its begin");
  EXPECT_EQ(error_in_value(static_cast<GgufType>(13), FileText().u64(0)),
            "f: metadata 1 of 1 (\"k\") at byte 24: the type is 13, but 0 to 12 was expected");
  EXPECT_EQ(error_in_value(GgufType::kBool, FileText().raw("\2")),
            "f: metadata 1 of 1 (\"k\") at byte 24: a bool is 2, but 0 or 1 was expected");
}

TEST(GgufHeader, RefusesDeepArrays) {
  const auto nested = [](int depth) {
    FileText value;
    for (int i = 0; i < depth; ++i)
      value.u32(static_cast<std::uint32_t>(i + 1 < depth ? GgufType::kArray : GgufType::kU8)).u64(1);
    return error_in_value(GgufType::kArray, value.raw("\1"));
  };
  EXPECT_EQ(nested(4), "(no error)");
  EXPECT_EQ(nested(5), "f: metadata 1 of 1 (\"k\") at byte 24: arrays are nested more than 4 deep");
  EXPECT_EQ(nested(100'000), "f: metadata 1 of 1 (\"k\") at byte 24: arrays are nested more than 4 deep");
}

TEST(GgufHeader, RefusesBadShapes) {
  EXPECT_EQ(error_in_tensor({1, 1, 1, 1, 1}),
            "f: tensor 1 of 1 (\"a\") at byte 24: the rank is 5, but at most 4 was expected");
  EXPECT_EQ(error_in_tensor({std::uint64_t{1} << 63}),
            "f: tensor 1 of 1 (\"a\") at byte 24: an extent is 9223372036854775808, but less than 2^63 was expected");
  const std::uint64_t large = std::uint64_t{1} << 32;
  const std::string too_large = "but fewer than 2^63 bytes were expected";
  EXPECT_THAT(error_in_tensor({large, large, large}), HasSubstr(too_large));
  EXPECT_THAT(error_in_tensor({large * (large / 8)}), HasSubstr(too_large));
  EXPECT_THAT(error_in_tensor({0, large, large}), HasSubstr(too_large));
  EXPECT_EQ(
      error_in_tensor({33, 2}, kQ8_0),
      "f: tensor 1 of 1 (\"a\") at byte 24: the innermost extent of [2, 33] is 33, but a multiple of 32, a block of "
      "Q8_0, was expected");
  EXPECT_THAT(error_in_tensor({}, kQ8_0), HasSubstr("the innermost extent of [] is 1, but a multiple of 32"));
  EXPECT_EQ(error_in_tensor({1}, 42),
            "f: tensor 1 of 1 (\"a\") at byte 24: the type is 42, which is not known; the last known one is 41, Q1_0");
  EXPECT_EQ(error_in_tensor({0, 3}), "(no error)");
  EXPECT_EQ(error_in_tensor({16}), "(no error)");
}

TEST(GgufHeader, RefusesDataOutsideTheFile) {
  EXPECT_EQ(error_in_tensor({17}), "f: tensor \"a\" has 68 bytes from data byte 0, but the file has 64 data bytes");
  EXPECT_EQ(error_in_tensor({8}, kF32, 64),
            "f: tensor \"a\" has 32 bytes from data byte 64, but the file has 64 data bytes");
  EXPECT_THAT(error_in_tensor({8}, kF32, ~std::uint64_t{31}), HasSubstr("from data byte 18446744073709551584, but"));
  EXPECT_EQ(error_in_tensor({8}, kF32, 16),
            "f: tensor 1 of 1 (\"a\") at byte 24: the offset is 16, but a multiple of the file's alignment, 32, was "
            "expected");
  EXPECT_EQ(gguf_error_in(start(1, 0).tensor("a", {1}, kF32, 0).str()),
            "f: tensor \"a\" has 4 bytes from data byte 0, but the file has 0 data bytes");
}

TEST(GgufHeader, RefusesOverlapsAndDuplicates) {
  const auto two = [](std::string_view second, std::uint64_t offset) {
    return gguf_error_in(start(2, 0).tensor("a", {16}, kF32, 0).tensor(second, {8}, kF32, offset).data(128).str());
  };
  EXPECT_EQ(two("b", 64), "(no error)");
  EXPECT_EQ(two("b", 96), "(no error)") << "a gap";
  EXPECT_EQ(two("b", 32), "f: tensor \"b\" begins at data byte 32, within tensor \"a\"");
  EXPECT_EQ(two("a", 64), "f: two tensors are called \"a\"");
  EXPECT_EQ(gguf_error_in(start(0, 2).key("k", GgufType::kU8).raw("a").key("k", GgufType::kI8).raw("a").str()),
            "f: two metadata are called \"k\"");
}

TEST(GgufHeader, NamesInMessagesAreEscapedAndShort) {
  const std::string name = "\x1b[31m" + std::string(5000, 'x') + "\n";
  const std::string error = gguf_error_in(start(1, 0).tensor(name, {17}, kF32, 0).data(64).str());
  EXPECT_THAT(error, StartsWith("f: tensor \"\\x1b[31mxxx"));
  EXPECT_LT(error.size(), 300U);
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

// Every single-byte change of a small file must be either read or refused with an Error; nothing else may happen.
TEST(GgufHeader, SurvivesEveryByteFlip) {
  const std::string good = start(2, 2)
                               .key("k", GgufType::kArray)
                               .u32(static_cast<std::uint32_t>(GgufType::kText))
                               .u64(1)
                               .text("v")
                               .key("general.alignment", GgufType::kU32)
                               .u32(8)
                               .tensor("a", {32}, kQ8_0, 0)
                               .tensor("b", {2, 2}, kF32, 40)
                               .data(56, 8)
                               .str();
  ASSERT_EQ(gguf_error_in(good), "(no error)");
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_NE(gguf_error_in(good.substr(0, cut)), "(no error)") << cut;
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      refused += gguf_error_in(bad) == "(no error)" ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 10000);
}

// The fuzzer's seeds, so that they are tried where there is no fuzzer.
TEST(GgufHeader, ReadsOrRefusesTheFuzzSeeds) {
  int count = 0;
  for (const fs::directory_entry& seed : fs::directory_iterator(std::string(kSourceDir) + "/tests/fuzz/gguf")) {
    const std::string name = seed.path().filename();
    const std::string error = gguf_error_in(read_file(seed.path()));
    EXPECT_EQ(error == "(no error)", name.starts_with("valid_")) << name << ": " << error;
    ++count;
  }
  EXPECT_GE(count, 40);
}

class GgufWriterTest : public testing::Test {
 protected:
  std::string refusal(GgufTensorSpec tensor, int times = 1) {
    std::vector<GgufTensorSpec> tensors(static_cast<std::size_t>(times), tensor);
    return error_of([&] { GgufWriter(folder_ / "a.gguf", tensors, {}); });
  }
  TempFolder folder_;
};

TEST_F(GgufWriterTest, WritesWhatTheReaderReads) {
  const BlockFormat* const q8 = find_block_format("Q8_0");
  const BlockFormat* const f32 = find_block_format("F32");
  const std::filesystem::path path = folder_ / "a.gguf";
  std::vector<std::byte> blocks(2 * 34);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i);
  const std::vector<float> numbers = {1, 2, 3};
  GgufWriter writer(path, {{"b", q8, {2, 32}}, {"a", f32, {3}}, {"none", f32, {0}}, {"c", f32, {1, 1, 3}}},
                    {{"general.architecture", "flux"}, {"general.quantization_version", std::uint32_t{2}}});
  writer.write("b", std::span(blocks).first(10));
  writer.write("b", std::span(blocks).subspan(10));
  EXPECT_THROW(writer.write("c", std::as_bytes(std::span(numbers))), std::logic_error);
  writer.write("a", std::as_bytes(std::span(numbers)));
  EXPECT_THROW(writer.commit(), std::logic_error);
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.write("c", std::as_bytes(std::span(numbers)));
  writer.commit();
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.header().find_metadata("general.architecture")->text(), "flux");
  EXPECT_EQ(file.header().find_metadata("general.quantization_version")->integer(), 2);
  ASSERT_EQ(file.header().tensors.size(), 4U);
  EXPECT_EQ(file.tensor("b").shape, (Shape{2, 32}));
  EXPECT_TRUE(std::ranges::equal(file.bytes(file.tensor("b")), blocks));
  EXPECT_EQ(file.tensor("c").shape, (Shape{1, 1, 3}));
  for (const char* const name : {"a", "c"})
    EXPECT_TRUE(std::ranges::equal(file.unpack(file.tensor(name)).as<float>(), numbers)) << name;
}

TEST_F(GgufWriterTest, RefusesWhatTheFormatDoesNotHold) {
  const BlockFormat* const q8 = find_block_format("Q8_0");
  EXPECT_THAT(refusal({"a", q8, {2, 33}}), HasSubstr("a has rows of 33, which are no whole blocks of Q8_0"));
  EXPECT_THAT(refusal({std::string(64, 'x'), q8, {32}}), HasSubstr("has a name of more than 63 bytes"));
  EXPECT_THAT(refusal({"a", q8, {1, 1, 1, 1, 32}}), HasSubstr("has more than four extents"));
  EXPECT_THAT(refusal({"a", q8, {32}}, 2), HasSubstr("two tensors are called a"));
}

}  // namespace
}  // namespace headroom
