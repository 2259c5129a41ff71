#include "cli/usage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace headroom {
namespace {

/// A program with two commands of made-up options.
class UsageTest : public testing::Test {
 protected:
  UsageTest() {
    app_.require_subcommand(1);
    convert_ = app_.add_subcommand("convert", "");
    convert_->add_option("MODEL", text_, "the model to convert")->required();
    convert_->add_option("--out", text_)->required()->type_name("DIR");
    convert_->add_option("--steps", text_)->type_name("INT");
    convert_->add_option("--prompt", list_)->type_name("TEXT")->allow_extra_args(false);
    convert_->add_option("--opt", text_)->type_name("LIST");
    convert_->add_option("--step-of-process", text_)->group("");
    report_ = app_.add_subcommand("report", "");
    report_->add_option("RESULTS", list_);
  }

  /// The error message for a mistake, with the hint.
  std::string mistake(const std::string& arguments) {
    std::vector<std::string> words;
    std::istringstream text(arguments);
    for (std::string word; text >> word;) words.push_back(word);
    try {
      app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& error) {
      return explain(app_, error, words) + "\n" + usage_hint(app_);
    }
    return "(no mistake)";
  }

  CLI::App app_{"", "headroom"};
  CLI::App* convert_ = nullptr;
  CLI::App* report_ = nullptr;
  std::string text_;
  std::vector<std::string> list_;
};

TEST_F(UsageTest, NamesWhatACommandNeeds) {
  EXPECT_EQ(usage_of(app_), "headroom COMMAND [options]");
  EXPECT_EQ(usage_of(*convert_), "headroom convert MODEL --out DIR [options]");
  EXPECT_EQ(usage_of(*report_), "headroom report [RESULTS...] [options]");
  EXPECT_EQ(UsageFormatter(80).make_usage(convert_, ""), "Usage: headroom convert MODEL --out DIR [options]\n");
}

TEST_F(UsageTest, HintsAtTheCommandThatWasChosen) {
  EXPECT_EQ(mistake("report x --out"),
            "this argument was not expected: --out\n"
            "usage: headroom report [RESULTS...] [options]; see headroom report --help");
  EXPECT_EQ(mistake("convert m"),
            "--out is required\n"
            "usage: headroom convert MODEL --out DIR [options]; see headroom convert --help");
  EXPECT_EQ(mistake(""), "a command was expected\nusage: headroom COMMAND [options]; see headroom --help");
}

TEST_F(UsageTest, NamesWhatWasProbablyMeant) {
  const std::string hint = "\nusage: headroom COMMAND [options]; see headroom --help";
  EXPECT_EQ(mistake("reprot x"), "unknown command 'reprot'; did you mean 'report'?" + hint);
  EXPECT_EQ(mistake("paint x"), "unknown command 'paint'" + hint);
  EXPECT_EQ(mistake("--hepl"), "this argument was not expected: --hepl; did you mean '--help'?" + hint);
  const std::string usage = "\nusage: headroom convert MODEL --out DIR [options]; see headroom convert --help";
  EXPECT_EQ(mistake("convert m --out x --stpes=3"),
            "this argument was not expected: --stpes=3; did you mean '--steps'?" + usage);
  EXPECT_EQ(mistake("convert m --out x --bogus"), "this argument was not expected: --bogus" + usage);
}

TEST_F(UsageTest, SaysWhatIsMissing) {
  EXPECT_THAT(mistake("convert --out x"), testing::StartsWith("MODEL is missing: the model to convert\n"));
}

TEST_F(UsageTest, WordsAfterAValueAreReportedWithWhatToDo) {
  const auto first_line = [&](const std::string& arguments) {
    const std::string text = mistake(arguments);
    return text.substr(0, text.find('\n'));
  };
  const std::string quote =
      "; --prompt takes one value: quote a text of several words, as in --prompt \"an ankle boot\"";
  EXPECT_EQ(first_line("convert m --out x --prompt an ankle boot"),
            "these arguments were not expected: ankle boot" + quote);
  EXPECT_EQ(first_line("convert m --out x --prompt=an ankle"), "this argument was not expected: ankle" + quote);
  EXPECT_EQ(first_line("convert --prompt an ankle boot m --out x"),
            "these arguments were not expected: boot m" + quote);
  EXPECT_EQ(
      first_line("convert m --out x --opt fast steps=8"),
      "this argument was not expected: steps=8; --opt takes one value: separate its items by commas, without blanks");
  EXPECT_EQ(first_line("convert m --out x --steps 3 4"), "this argument was not expected: 4; --steps takes one value");
  EXPECT_EQ(first_line("convert m n --out x"), "this argument was not expected: n");
}

TEST_F(UsageTest, CountsWhatIsGivenOnce) {
  EXPECT_EQ(mistake("convert m --out a --out b").substr(0, 37), "--out is given 2 times, expected once");
}

TEST_F(UsageTest, WrapsHelpToTheWidth) {
  convert_->add_option("--quite-a-long-name", text_, "what is meant by it: " + std::string(20, 'x') + " and the rest")
      ->type_name("{one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,thirteen,fourteen}");
  convert_->footer("Example: headroom convert folder/of/a/model --out folder/to/write --steps 28");
  for (const std::size_t columns : {40U, 60U, 80U}) {
    app_.formatter(std::make_shared<UsageFormatter>(columns));
    convert_->formatter(std::make_shared<UsageFormatter>(columns));
    for (const std::string& help : {convert_->help(), app_.help()}) {
      std::istringstream lines(help);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
    }
  }
  EXPECT_NE(convert_->help().find("--out DIR REQUIRED"), std::string::npos);
}

TEST_F(UsageTest, HiddenOptionsLeaveNoBlankLineInHelp) {
  convert_->add_option("--hidden", text_)->group("");
  convert_->footer("Example: headroom convert m --out x");
  convert_->formatter(std::make_shared<UsageFormatter>(80));
  EXPECT_EQ(convert_->help().find("\n\n\n"), std::string::npos) << convert_->help();
  EXPECT_NE(convert_->help().find("\n\nExample: "), std::string::npos) << convert_->help();
}

TEST_F(UsageTest, BreaksExamplesAsAShellTakesThem) {
  convert_->footer("Example: headroom convert folder/of/a/model --out folder/to/write\nExit codes: 0.");
  EXPECT_EQ(UsageFormatter(50).make_footer(convert_),
            "Example: headroom convert folder/of/a/model \\\n"
            "             --out folder/to/write\n"
            "Exit codes: 0.\n");
}

}  // namespace
}  // namespace headroom
