#include "cli/number.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "cli/commands/commands.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// All commands of the program.
void add_commands(CLI::App& app, ExitCode& exit_code) {
  add_models_command(app);
  add_run_command(app);
  add_stream_command(app, exit_code);
  add_forward_command(app);
  add_bench_command(app, exit_code);
  add_ladder_command(app);
  add_plan_command(app);
  add_convert_command(app);
  add_calibrate_command(app);
  add_profile_command(app);
  add_sweep_command(app);
  add_compare_command(app, exit_code);
  add_history_command(app);
  add_report_command(app);
}

/// Whether the help of an option says that it is a number.
bool is_number(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return std::ranges::any_of(std::vector<std::string>{"INT", "FLOAT", "SEED", "SIZE"},
                             [&](const std::string& kind) { return type.find(kind) != std::string::npos; });
}

/// Whether the option accepts the text, as far as it can be checked without the other options.
bool takes(CLI::Option& option, const std::string& text) {
  option.clear();
  option.add_result(text);
  try {
    option.run_callback();
  } catch (const CLI::ParseError&) {
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return false;
  }
  return true;
}

/// No option of any command accepts a text that is not a valid number.
TEST(Number, NoOptionTakesWhatMeansNothing) {
  CLI::App app;
  ExitCode exit_code = ExitCode::kOk;
  add_commands(app, exit_code);
  std::size_t numbers = 0;
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options()) {
      if (!is_number(*option)) continue;
      ++numbers;
      for (const char* text : {"nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e400", "-1", "-0.5", "1e20", "0x10",
                               "", " ", "--1", "1 2", "1x", "seven", "99999999999999999999999999"})
        EXPECT_FALSE(takes(*option, text)) << command->get_name() << " " << option->get_name() << " '" << text << "'";
    }
  EXPECT_GT(numbers, 90U);
}

TEST(Number, SizesHaveUnits) {
  CLI::App app;
  std::size_t bytes = 0;
  CLI::Option& option = *app.add_option("--limit", bytes)->transform(byte_size());
  const auto read = [&](const std::string& text) {
    EXPECT_TRUE(takes(option, text)) << text;
    return bytes;
  };
  EXPECT_EQ(read("1"), 1U);
  EXPECT_EQ(read("4096b"), 4096U);
  EXPECT_EQ(read("16GiB"), std::size_t{16} << 30U);
  EXPECT_EQ(read("16 gi"), std::size_t{16} << 30U);
  EXPECT_EQ(read("2kb"), 2000U);
  EXPECT_EQ(read("1.5GB"), 1'500'000'000U);
  EXPECT_EQ(read("1e9"), 1'000'000'000U);
  EXPECT_EQ(read("1EiB"), std::size_t{1} << 60U);
  for (const char* text : {"0", "0GiB", "0.5", "-1", "-1GiB", "1e20", "2EiB", "nan", "nanGiB", "infGB", "GiB", "1zb",
                           "1gig", "1.2.3", "1 G B"})
    EXPECT_FALSE(takes(option, text)) << text;
}

TEST(Number, ListsMayHoldAWordForTheModelsOwn) {
  EXPECT_EQ(parse_whole_numbers({"4, own", "8"}, "--steps", 1, 100, "own"), (std::vector<std::int64_t>{4, 0, 8}));
  EXPECT_THAT(error_of([] { static_cast<void>(parse_whole_numbers({"4,0"}, "--steps", 1, 100, "own")); }),
              HasSubstr("--steps: '0' is not a whole number from 1 to 100, nor 'own'"));
  EXPECT_THAT(error_of([] { static_cast<void>(parse_whole_numbers({"own"}, "--batch", 1, 100)); }),
              HasSubstr("--batch: 'own' is not a whole number from 1 to 100"));
}

TEST(Number, LeadingZerosAreNamedOnlyWhereTheyAreTheReason) {
  CLI::Validator whole = whole_number(1, 100);
  EXPECT_EQ(whole("007"), "'007' is not a whole number from 1 to 100, without leading zeros");
  EXPECT_EQ(whole("-07"), "'-07' is not a whole number from 1 to 100, without leading zeros");
  EXPECT_EQ(whole("0.5"), "'0.5' is not a whole number from 1 to 100");
  EXPECT_EQ(whole("0x10"), "'0x10' is not a whole number from 1 to 100");
}

TEST(Number, AShareIsAPercentageOrAFraction) {
  const auto read = [](std::string text) {
    const std::string wrong = share()(text);
    return wrong.empty() ? text : wrong;
  };
  EXPECT_EQ(read("1%"), "0.01");
  EXPECT_EQ(read("0.01"), "0.01");
  EXPECT_EQ(read("0"), "0");
  EXPECT_EQ(read("100%"), "1");
  for (const char* wrong : {"1", "5", "-1%", "101%", "nan", "%", "", "1 %", "1%%"})
    EXPECT_EQ(read(wrong), fmt::format("'{}' is not a share such as 1% or 0.01, from 0 to 100%", wrong));
}

}  // namespace
}  // namespace headroom
