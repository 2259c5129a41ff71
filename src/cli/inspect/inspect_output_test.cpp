#include "cli/inspect/inspect_output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text/json.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::Not;

WeightsListing example() {
  return {.format = "GGUF version 3",
          .files = {"a.gguf"},
          .file_bytes = 5000,
          .tensors = {{"double_blocks.0.img_attn.norm.key_norm.scale", "F32", true, {128}, 512},
                      {"img_in.weight", "Q4_0", true, {64, 64}, 2304},
                      {"txt_in.bias", "IQ2_XS", false, {256}, 74}},
          .metadata = {{"general.architecture", "flux"},
                       {"tokens", {{"type", "text"}, {"count", 9}, {"first", {"a", "b\n"}}}}},
          .notes = {"IQ2_XS is not read: the model is needed in another type"}};
}

TEST(InspectOutput, HasATableForEachQuestion) {
  EXPECT_EQ(inspect_tables(example(), 2).text(),
            "a.gguf\n"
            "GGUF version 3, 4.88 KiB, 3 tensors, 4480 elements\n"
            "\n"
            "network                     names of  prefix  tensors     bytes\n"
            "--------------------------  --------  ------  -------  --------\n"
            "FLUX.1-schnell transformer  BFL       -             3  2.82 KiB\n"
            "\n"
            "memory of weights            in bf16  matrices in 8 bits    packed\n"
            "--------------------------  --------  ------------------  --------\n"
            "FLUX.1-schnell transformer  8.75 KiB            5.00 KiB  3.00 KiB\n"
            "\n"
            "dtype              tensors  elements     bytes  share\n"
            "-----------------  -------  --------  --------  -----\n"
            "F32                      1       128     512 B  17.7%\n"
            "IQ2_XS (not read)        1       256      74 B   2.6%\n"
            "Q4_0                     1      4096  2.25 KiB  79.7%\n"
            "\n"
            "largest tensors                               dtype  shape        bytes\n"
            "--------------------------------------------  -----  --------  --------\n"
            "img_in.weight                                 Q4_0   [64, 64]  2.25 KiB\n"
            "double_blocks.0.img_attn.norm.key_norm.scale  F32    [128]        512 B\n"
            "\n"
            "metadata              value\n"
            "--------------------  ------------------------\n"
            "general.architecture  flux\n"
            "tokens                9 of text: a, b\\x0a, ...\n"
            "\n"
            "note: IQ2_XS is not read: the model is needed in another type\n");
}

FileReport report() {
  return {.configuration = {{.part = "transformer", .key = "num_layers", .value = 2, .source = "names and shapes"}},
          .notes = {"a.gguf lacks 1 part"}};
}

TEST(InspectOutput, ShowsConfigurationsWithTheirSources) {
  const std::string text = inspect_tables(example(), 0, report()).text();
  EXPECT_THAT(text, HasSubstr("configuration           value  from\n"
                              "----------------------  -----  ----------------\n"
                              "transformer.num_layers  2      names and shapes\n"));
  EXPECT_THAT(text, HasSubstr("note: a.gguf lacks 1 part\n"));
}

TEST(InspectOutput, HasARowForEachPartOfAPipeline) {
  EXPECT_EQ(parts_tables({{"transformer", example()}}).text(),
            "part         network                     names of  dtypes             tensors     bytes\n"
            "-----------  --------------------------  --------  -----------------  -------  --------\n"
            "transformer  FLUX.1-schnell transformer  BFL       F32, IQ2_XS, Q4_0        3  2.82 KiB\n"
            "\n"
            "note: IQ2_XS is not read: the model is needed in another type\n");
}

TEST(InspectOutput, LeavesOutEmptyTables) {
  WeightsListing nothing;
  nothing.format = "safetensors";
  nothing.files = {"a"};
  EXPECT_EQ(inspect_tables(nothing, 10).text(), "a\nsafetensors, 0 B, 0 tensors, 0 elements\n\n");
  EXPECT_THAT(inspect_tables(example(), 0).text(), Not(HasSubstr("largest")));
}

TEST(InspectOutput, LimitsMetadataOfATable) {
  WeightsListing listing = example();
  listing.metadata.clear();
  for (int i = 100; i < 150; ++i) listing.metadata.emplace_back(std::to_string(i), std::string(300, 'x'));
  const std::string text = inspect_tables(listing, 1).text();
  EXPECT_THAT(text, HasSubstr("\n139       xxx"));
  EXPECT_THAT(text, Not(HasSubstr("140")));
  EXPECT_THAT(text, HasSubstr("and 10 more metadata, which --json lists\n"));
  EXPECT_THAT(text, Not(HasSubstr(std::string(101, 'x'))));
  EXPECT_EQ(inspect_json(listing, 1)["metadata"].size(), 50U);
}

TEST(InspectOutput, IsOneJsonObject) {
  const nlohmann::json expected = {
      {"format", "GGUF version 3"},
      {"files", {"a.gguf"}},
      {"bytes", 5000},
      {"tensors", 3},
      {"networks",
       {{{"network", "FLUX.1-schnell transformer"},
         {"names", "BFL"},
         {"prefix", ""},
         {"tensors", 3},
         {"bytes", 2890},
         {"memory", {{"bf16", 8960}, {"8_bits", 5120}, {"packed", 3072}}}}}},
      {"dtypes",
       {{{"dtype", "F32"}, {"read", true}, {"tensors", 1}, {"elements", 128}, {"bytes", 512}},
        {{"dtype", "IQ2_XS"}, {"read", false}, {"tensors", 1}, {"elements", 256}, {"bytes", 74}},
        {{"dtype", "Q4_0"}, {"read", true}, {"tensors", 1}, {"elements", 4096}, {"bytes", 2304}}}},
      {"largest", {{{"name", "img_in.weight"}, {"dtype", "Q4_0"}, {"shape", {64, 64}}, {"bytes", 2304}}}},
      {"metadata",
       {{"general.architecture", "flux"}, {"tokens", {{"type", "text"}, {"count", 9}, {"first", {"a", "b\n"}}}}}},
      {"configuration", {{{"part", "transformer"}, {"key", "num_layers"}, {"value", 2}, {"from", "names and shapes"}}}},
      {"notes", {"IQ2_XS is not read: the model is needed in another type", "a.gguf lacks 1 part"}}};
  EXPECT_EQ(inspect_json(example(), 1, report()), expected);
}

TEST(InspectOutput, EscapesNamesOnceInJson) {
  WeightsListing listing = example();
  listing.tensors[1].name = "a\x1b\\\xff";
  listing.metadata = {{"\x1b", "\x1b"}};
  const nlohmann::json printed = nlohmann::json::parse(dump_json(inspect_json(listing, 1)));
  EXPECT_EQ(printed["largest"][0]["name"], "a\x1b\\\\xff") << "JSON holds no invalid byte";
  EXPECT_EQ(printed["metadata"]["\x1b"], "\x1b");
  EXPECT_THAT(inspect_tables(listing, 1).text(), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace headroom
