#include "io/gguf_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/test_util.hpp"
#include "io/gguf.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

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
