#include "cli/option_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/all_commands.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The program with all its commands.
class AllCommandsTest : public testing::Test {
 protected:
  AllCommandsTest() {
    app_.require_subcommand(1);
    add_all_commands(app_, exit_code_);
  }
  [[nodiscard]] std::string hint(const char* command, const char* option) {
    return hint_at_option(*app_.get_subcommand(command), option);
  }
  static std::string meant(const std::string& option) { return "; did you mean '" + option + "'?"; }

  ExitCode exit_code_ = ExitCode::kOk;
  CLI::App app_{"", "headroom"};
};

TEST_F(AllCommandsTest, EachOptionOfEachCommandTakesOneValueAtATime) {
  std::set<std::string> commands;
  for (CLI::App* command : app_.get_subcommands({})) {
    commands.insert(command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      if (!option->nonpositional() || option->get_items_expected_max() == 0) continue;
      EXPECT_FALSE(option->get_allow_extra_args())
          << command->get_name() << " " << option->get_name() << " takes the words behind its value";
      EXPECT_EQ(option->get_type_size_max(), 1) << command->get_name() << " " << option->get_name();
      EXPECT_EQ(option->get_expected_min(), 1) << command->get_name() << " " << option->get_name();
    }
  }
  EXPECT_GE(commands.size(), 14U);
}

TEST_F(AllCommandsTest, EachCommandWithSwitchesIsStrictWhereItIsAskedToBe) {
  for (const CLI::App* command : app_.get_subcommands({}))
    EXPECT_EQ(command->get_option_no_throw("--opt") != nullptr, command->get_option_no_throw("--strict") != nullptr)
        << command->get_name();
}

TEST_F(AllCommandsTest, OneThingHasOneName) {
  for (const CLI::App* command : app_.get_subcommands({}))
    for (const char* former : {"--output", "--guidance-scale"})
      EXPECT_EQ(command->get_option_no_throw(former), nullptr) << command->get_name() << " " << former;
  for (const char* command :
       {"run", "forward", "stream", "bench", "profile", "compare", "ladder", "sweep", "report", "convert", "calibrate"})
    EXPECT_NE(app_.get_subcommand(command)->get_option_no_throw("--out"), nullptr) << command;
  for (const char* command : {"run", "bench", "ladder", "plan", "profile", "sweep", "calibrate"})
    EXPECT_NE(app_.get_subcommand(command)->get_option_no_throw("--batch"), nullptr) << command;
}

TEST_F(AllCommandsTest, NamesOfOtherProgramsHintAtOurs) {
  EXPECT_EQ(hint("run", "--num-inference-steps"), meant("--steps"));
  EXPECT_EQ(hint("run", "--num_inference_steps=4"), meant("--steps"));
  EXPECT_EQ(hint("run", "--guidance-scale"), meant("--guidance"));
  EXPECT_EQ(hint("run", "--guidance_scale"), meant("--guidance"));
  EXPECT_EQ(hint("run", "--cfg"), meant("--guidance"));
  EXPECT_EQ(hint("run", "--cfg-scale=3"), meant("--guidance"));
  EXPECT_EQ(hint("run", "--output"), meant("--out"));
  EXPECT_EQ(hint("run", "-o"), meant("--out"));
  EXPECT_EQ(hint("run", "-s"), meant("--seed"));
  EXPECT_EQ(hint("run", "-p"), meant("--prompt"));
  EXPECT_EQ(hint("run", "-W"), meant("--width"));
  EXPECT_EQ(hint("run", "-H"), meant("--height"));
  EXPECT_EQ(hint("run", "--sampling-method"), meant("--opt sampler=NAME"));
  EXPECT_EQ(hint("run", "--negative"), meant("--negative-prompt"));
  EXPECT_EQ(hint("run", "--negative_prompt"), meant("--negative-prompt"));
  EXPECT_EQ(hint("stream", "-i"), meant("--input"));
  EXPECT_EQ(hint("stream", "--save-json"), meant("--out")) << "of a stream the video, which the help tells";
  EXPECT_EQ(hint("run", "-m"), "; expected MODEL without a name, the folder of a checkpoint in diffusers layout");
  EXPECT_EQ(hint("report", "-m"), "") << "which takes no model";
  EXPECT_EQ(hint("run", "--stpes"), meant("--steps"));
  EXPECT_EQ(hint("run", "--no-such-thing"), "");
  EXPECT_EQ(hint_at_command(app_, "help"), meant("headroom --help"));
  EXPECT_EQ(hint_at_command(app_, "version"), meant("headroom --version"));
  EXPECT_EQ(hint_at_command(app_, "txt2img"), meant("run"));
  EXPECT_EQ(hint_at_command(app_, "benchmark"), meant("bench"));
  EXPECT_EQ(hint_at_command(app_, "laddr"), meant("ladder"));
  EXPECT_EQ(hint_at_command(app_, "paint"), "");
}

TEST(OptionNames, FormerNamesAreTakenAndNotedOnce) {
  const CurrentArguments current =
      with_current_names({"bench", "m", "--save", "a.json", "--trials", "3", "--save=b.json", "--save-base", "c.json"});
  EXPECT_THAT(current.arguments,
              ElementsAre("bench", "m", "--out", "a.json", "--trials", "3", "--out=b.json", "--save-base", "c.json"));
  EXPECT_THAT(current.notes, ElementsAre("--save is called --out now; the former name goes away in the next version"));
  EXPECT_THAT(with_current_names({"stream", "m", "--output", "o", "--save", "s"}).arguments,
              ElementsAre("stream", "m", "--out", "o", "--save", "s"));
}

TEST(OptionNames, NothingElseIsChanged) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"run", "m", "--output", "x"},
                                                    {"bench", "m", "--", "--save"},
                                                    {"calibrate", "m", "--images", "2"},
                                                    {"--help"},
                                                    {}}) {
    const CurrentArguments current = with_current_names(arguments);
    EXPECT_EQ(current.arguments, arguments);
    EXPECT_THAT(current.notes, IsEmpty());
  }
}

TEST(WithEmptyValues, KeepAnEmptyValueFromTheNextArgument) {
  EXPECT_THAT(with_empty_values({"run", "m", "--opt=", "--quiet", "--seed=3", "--prompt=a=", "-q", "--", "--opt="}),
              ElementsAre("run", "m", "--opt", "", "--quiet", "--seed=3", "--prompt=a=", "-q", "--", "--opt="));
}

}  // namespace
}  // namespace headroom
