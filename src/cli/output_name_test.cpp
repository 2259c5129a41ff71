#include "cli/output_name.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/test_util.hpp"

namespace headroom {
namespace {

/// The error message of the check; empty if it accepts the name.
std::string said(const CLI::Validator& check, std::string name) { return check(name); }

TEST(WrittenAs, RefusesASuffixThatIsNotWritten) {
  const CLI::Validator image = written_as({".png"});
  EXPECT_EQ(said(image, "s.jpg"), "'s.jpg' ends in .jpg; what can be written: .png");
  EXPECT_EQ(said(image, "a.b/s.PNG.Gz"), "'a.b/s.PNG.Gz' ends in .gz; what can be written: .png");
  const CLI::Validator chart = written_as({".png", ".svg"});
  EXPECT_EQ(said(chart, "s."), "'s.' ends in .; what can be written: .png, .svg");
}

TEST(WrittenAs, TakesItsOwnAndNone) {
  const CLI::Validator image = written_as({".png"});
  for (const char* name : {"s.png", "S.PNG", "v1.2/s", "/dev/stdout", ".hidden", ""}) EXPECT_EQ(said(image, name), "");
}

TEST(WrittenAs, TakesADashOnlyForStandardOutput) {
  EXPECT_EQ(said(written_as({".json"}), "-"),
            "'-' is standard output, which this option does not write to; expected a file");
  EXPECT_EQ(said(written_as({".json"}), "./-"), "") << "a file of that name";
  EXPECT_EQ(said(written_as({".json"}, Dash::kTaken), "-"), "");
}

TEST(FolderName, RefusesWhatIsNamedLikeAFile) {
  EXPECT_EQ(said(folder_name(), "out/s.jpg"), "'out/s.jpg' ends in .jpg as a file does; what can be written: a folder");
  for (const char* name : {"results.JSON", "i8.gguf", "figures.pdf"}) EXPECT_NE(said(folder_name(), name), "") << name;
  for (const char* name : {"out", "out/flux.1-dev", "v1.2", "."}) EXPECT_EQ(said(folder_name(), name), "");
  const TempFolder folder;
  std::filesystem::create_directory(folder / "old.json");
  EXPECT_EQ(said(folder_name(), (folder / "old.json").string()), "") << "it is a folder";
}

}  // namespace
}  // namespace headroom
