#include "io/weights_listing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/gguf.hpp"
#include "io/safetensors.hpp"
#include "io/weights_files.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WeightsListingTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::map<std::string, HostTensor>& tensors,
                 const SafetensorsMetadata& metadata = {}) const {
    write_safetensors(folder_ / name, tensors, metadata);
    return folder_ / name;
  }
  fs::path write(const std::string& name, std::string_view text) const {
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  static std::string error(const fs::path& path) {
    return error_of([&] { (void)list_weights(path); });
  }
  static HostTensor some(DType dtype, const Shape& shape) { return {dtype, shape}; }

  TempFolder folder_;
};

std::string text_of(std::uint64_t value, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((value >> (8 * i)) & 0xFFU);
  return text;
}

TEST_F(WeightsListingTest, ListsASafetensorsFile) {
  const fs::path path = write("model.safetensors", {{"b", some(DType::kBF16, {2, 3})}, {"a", some(DType::kF32, {4})}},
                              {{"format", "pt"}, {"long", std::string(10'000, 'x')}, {"odd\n", "a\x1b[31m"}});
  const WeightsListing listing = list_weights(path);
  EXPECT_EQ(listing.format, "safetensors");
  EXPECT_THAT(listing.files, ElementsAre(path));
  EXPECT_EQ(listing.file_bytes, fs::file_size(path));
  ASSERT_EQ(listing.tensors.size(), 2U);
  EXPECT_EQ(listing.tensors[0].name, "a");
  EXPECT_EQ(listing.tensors[1].dtype, "BF16");
  EXPECT_EQ(listing.tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(listing.tensors[1].size_bytes, 12U);
  EXPECT_TRUE(listing.tensors[1].is_read);
  ASSERT_EQ(listing.metadata.size(), 3U);
  EXPECT_EQ(listing.metadata[0], std::pair(std::string("format"), json("pt")));
  EXPECT_EQ(listing.metadata[1].second.get<std::string>().size(), 4096U);
  EXPECT_EQ(listing.metadata[2], std::pair(std::string("odd\n"), json("a\x1b[31m")));
  EXPECT_THAT(listing.notes, IsEmpty());
}

TEST_F(WeightsListingTest, ListsAGgufFile) {
  const fs::path path = fs::path(kSourceDir) / "tests/goldens/gguf/blocks.gguf";
  const WeightsListing listing = list_weights(path);
  EXPECT_EQ(listing.format, "GGUF version 3");
  EXPECT_THAT(listing.files, ElementsAre(path));
  ASSERT_EQ(listing.tensors.size(), 15U);
  EXPECT_EQ(listing.tensors[5].name, "Q2_K");
  EXPECT_EQ(listing.tensors[5].dtype, "Q2_K");
  EXPECT_EQ(listing.tensors[5].shape, (Shape{8, 256}));
  EXPECT_EQ(listing.tensors[5].size_bytes, 8 * 84U);
  const std::map<std::string, json> metadata(listing.metadata.begin(), listing.metadata.end());
  EXPECT_EQ(metadata.at("general.architecture"), "golden");
  EXPECT_EQ(metadata.at("type.i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(metadata.at("type.u64").dump(), "18446744073709551615");
  EXPECT_EQ(metadata.at("type.bool"), true);
  EXPECT_EQ(metadata.at("type.f64"), 0.1);
  EXPECT_EQ(metadata.at("type.integers"), json({{"type", "i32"}, {"count", 3}, {"first", {-1, 2, 3}}}));
  EXPECT_EQ(metadata.at("type.texts"), json({{"type", "text"}, {"count", 3}, {"first", {"one", "", "three"}}}));
  EXPECT_THAT(listing.notes, IsEmpty());
}

TEST_F(WeightsListingTest, ListsTheShardsOfAFolder) {
  write("s-1.safetensors", {{"a", some(DType::kF16, {2})}});
  write("s-2.safetensors", {{"b", some(DType::kF32, {2})}});
  const fs::path index = write("diffusion_pytorch_model.safetensors.index.json",
                               R"({"weight_map": {"a": "s-1.safetensors", "b": "s-2.safetensors"}})");
  write("config.json", R"({"_class_name": "X"})");
  for (const fs::path& path : {folder_.path(), index}) {
    const WeightsListing listing = list_weights(path);
    ASSERT_EQ(listing.tensors.size(), 2U);
    EXPECT_EQ(listing.tensors[1].name, "b");
    EXPECT_THAT(listing.files, ElementsAre(folder_ / "s-1.safetensors", folder_ / "s-2.safetensors"));
    EXPECT_THAT(listing.notes, IsEmpty());
  }
  fs::remove(folder_ / "s-2.safetensors");
  EXPECT_THAT(list_weights(index).notes,
              ElementsAre(index.native() + " names the shard s-2.safetensors, which is not there"));
  fs::remove(folder_ / "s-1.safetensors");
  EXPECT_EQ(error(index), index.native() + " names no shard that is there");
}

TEST_F(WeightsListingTest, ListsTheMetadataOfAllShards) {
  write("s-1.safetensors", {{"a", some(DType::kF16, {2})}}, {{"format", "pt"}, {"license", "one"}, {"only", "first"}});
  write("s-2.safetensors", {{"b", some(DType::kF32, {2})}}, {{"format", "pt"}, {"license", "two"}});
  const fs::path index = write("diffusion_pytorch_model.safetensors.index.json",
                               R"({"weight_map": {"a": "s-1.safetensors", "b": "s-2.safetensors"}})");
  using Entry = std::pair<std::string, json>;
  EXPECT_THAT(list_weights(index).metadata,
              ElementsAre(Entry("format", "pt"), Entry("license (s-1.safetensors)", "one"),
                          Entry("license (s-2.safetensors)", "two"), Entry("only", "first")));
}

TEST_F(WeightsListingTest, NamesFormatsThatAreNotRead) {
  const auto note = [&](const std::map<std::string, HostTensor>& tensors) {
    const WeightsListing listing = list_weights(write("a.safetensors", tensors));
    return listing.notes.empty() ? "(no note)" : listing.notes[0];
  };
  const HostTensor u8 = some(DType::kU8, {2}), bf16 = some(DType::kBF16, {2});
  EXPECT_EQ(note({{"a.weight", bf16}}), "(no note)");
  EXPECT_THAT(note({{"a._weight_qdata", u8}, {"a._weight_scale", bf16}}),
              HasSubstr("it was quantized by torchao (its tensor a._weight_qdata), whose format is not read: give the "
                        "checkpoint that it was made from, or load it in diffusers"));
  EXPECT_THAT(note({{"a.weight", u8}, {"a.weight.quant_state.bitsandbytes__nf4", u8}}),
              HasSubstr("it was quantized by bitsandbytes"));
  EXPECT_THAT(note({{"a.weight", u8}, {"a.weight_scale", u8}, {"a.weight_scale_2", bf16}}),
              HasSubstr("it was quantized by NVFP4 (its tensor a.weight_scale_2)"));
  const std::string file = "GGUF" + text_of(3, 4) + text_of(2, 8) + text_of(0, 8) +  // two tensors
                           text_of(1, 8) + "a" + text_of(1, 4) + text_of(256, 8) + text_of(17, 4) + text_of(0, 8) +
                           text_of(1, 8) + "b" + text_of(1, 4) + text_of(32, 8) + text_of(39, 4) + text_of(96, 8);
  const WeightsListing gguf = list_weights(write("a.gguf", file + std::string(32 - file.size() % 32 + 96 + 17, '\0')));
  EXPECT_FALSE(gguf.tensors[0].is_read);
  EXPECT_THAT(gguf.notes, ElementsAre("IQ2_XS, MXFP4 are not read: the model is needed in another type"));
}

TEST_F(WeightsListingTest, SaysWhichPartOfASplitModelItIs) {
  const std::string u16 = text_of(2, 4);
  const fs::path path = write("a.gguf", "GGUF" + text_of(3, 4) + text_of(0, 8) + text_of(2, 8) +  //
                                            text_of(8, 8) + "split.no" + u16 + text_of(1, 2) +    //
                                            text_of(11, 8) + "split.count" + u16 + text_of(3, 2));
  EXPECT_THAT(list_weights(path).notes,
              ElementsAre(path.native() + " is part 2 of 3 of a split model: `llama-gguf-split --merge` joins them"));
}

TEST_F(WeightsListingTest, TakesTheGgufFileOfAFolder) {
  fs::copy_file(fs::path(kSourceDir) / "tests/goldens/gguf/blocks.gguf", folder_ / "a.gguf");
  EXPECT_EQ(list_weights(folder_.path()).tensors.size(), 15U);
  EXPECT_EQ(find_gguf(folder_.path()), folder_ / "a.gguf");
  fs::copy_file(folder_ / "a.gguf", folder_ / "b.gguf");
  EXPECT_EQ(error(folder_.path()), folder_.path().native() + " has 2 GGUF files, but one was expected: a.gguf, b.gguf");
}

TEST_F(WeightsListingTest, RefusesWhatIsNone) {
  EXPECT_EQ(error(folder_ / "x"), "there is no file or folder " + (folder_ / "x").native());
  EXPECT_EQ(error(folder_.path()),
            folder_.path().native() + " has no safetensors or GGUF file of weights; it holds nothing");
  for (const char* begin : {"PK\3\4", "\x80\x02"})
    EXPECT_EQ(error(write("a.ckpt", begin + std::string(50, 'x'))),
              (folder_ / "a.ckpt").native() +
                  " is a pickle of PyTorch, which may run any program when it is opened, and is not read: give the "
                  "model as safetensors");
  EXPECT_THAT(error(write("a.bin", std::string(50, 'x'))), HasSubstr("a.bin is not a safetensors file"));
  fs::create_directory(folder_ / "unet");
  write("unet/model.safetensors", {{"a", some(DType::kF16, {2})}});
  EXPECT_EQ(error(folder_.path()), folder_.path().native() +
                                       " holds the weights of several networks: give the folder of one, " +
                                       (folder_ / "unet").native());
}

/// Pages that a function touches for the first time.
template <typename Function>
long page_faults_of(const Function& function) {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  function();
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
}

// 24 GB have six million pages.
TEST_F(WeightsListingTest, ReadsTheHeaderOfALargeFileAlone) {
  constexpr std::uint64_t kBytes = 24'000'000'000;
  const std::string header = fmt::format(R"({{"a":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", kBytes);
  const fs::path safetensors = write("a.safetensors", text_of(header.size(), 8) + header);
  fs::resize_file(safetensors, 8 + header.size() + kBytes);
  const fs::path gguf = write("a.gguf", "GGUF" + text_of(3, 4) + text_of(1, 8) + text_of(0, 8) + text_of(1, 8) + "a" +
                                            text_of(1, 4) + text_of(kBytes, 8) + text_of(24, 4) + text_of(0, 8));
  fs::resize_file(gguf, 128 + kBytes);
  for (const fs::path& path : {safetensors, gguf}) {
    WeightsListing listing;
    EXPECT_LT(page_faults_of([&] { listing = list_weights(path); }), 10'000) << path;
    ASSERT_EQ(listing.tensors.size(), 1U);
    EXPECT_EQ(listing.tensors[0].size_bytes, kBytes);
    EXPECT_GT(listing.file_bytes, kBytes);
  }
}

}  // namespace
}  // namespace headroom
