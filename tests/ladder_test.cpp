// `headroom ladder` as a user meets it: what it climbs by default, stopped and gone on with, in processes, and what
// declines.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files/file_lock.hpp"
#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "measure/results/result.hpp"
#include "program_fixture.hpp"

extern char** environ;

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

const std::string kTinyLadder = std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance";

class LadderCommand : public ProgramTest {
 protected:
  /// A ladder of the smallest request.
  [[nodiscard]] std::string tiny(const std::string& options, int most_rounds = 2) const {
    return fmt::format("ladder {} --token-rows 4 --token-columns 4 --batch 1 --trials 3 --max-rounds {} {}",
                       kTinyLadder, most_rounds, options);
  }
  [[nodiscard]] std::vector<std::string> names_in(const std::string& printed) const {
    std::vector<std::string> names;
    for (const Result& result : results_from_json(parse_json(printed, "stdout"), "stdout").results)
      names.push_back(result.name);
    return names;
  }
};

TEST_F(LadderCommand, HalvesTheStepsThatAreAskedFor) {
  const Outcome six = headroom(tiny("--steps 6 --json -q"));
  ASSERT_EQ(six.code, 0) << six.err;
  EXPECT_THAT(names_in(six.out),
              AllOf(Contains("steps=3"), Contains(HasSubstr("+tile+steps=3")), Not(Contains("steps=14"))));
  EXPECT_THAT(names_in(headroom(tiny("--steps 1 --json -q")).out),
              AllOf(Contains("tile"), Not(Contains(HasSubstr("steps")))));
}

TEST_F(LadderCommand, MarksWhatDeclinesAndLeavesOutWhatIsForAnotherDevice) {
  const Outcome outcome = headroom(tiny("--steps 2 --opt arena,fp8 --out " + file("out")));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("fp8 (declined)"), HasSubstr("arena (fp8 declined)"), HasSubstr("fp8 is baseline\n")));
  EXPECT_THAT(outcome.err, HasSubstr("fp8: switch fp8 declined: "));
  const ResultFile results = read_results(file("out") + "/results.json");
  EXPECT_EQ(results.results.at(2).same_as, "baseline");
  EXPECT_EQ(results.results.at(2).trials, results.results.at(0).trials);

  const Outcome lossless = headroom(tiny("--steps 2 --opt lossless --json"));
  EXPECT_THAT(names_in(lossless.out), Not(Contains(HasSubstr("graph"))));
  EXPECT_THAT(lossless.err, Not(HasSubstr("graph declined")));
}

TEST_F(LadderCommand, MeasuresInProcesses) {
  const Outcome outcome = headroom(tiny("--steps 2 --opt arena,fuse --processes 3 -q --out " + file("out"), 3));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string path = file("out") + "/results.json";
  for (const Result& result : read_results(path).results) {
    std::set<std::int64_t> processes;
    for (const TrialSeries& series : result.trials)
      if (series.what.starts_with("step")) processes.insert(series.process.begin(), series.process.end());
    EXPECT_THAT(processes, ElementsAre(0, 1, 2)) << result.name;
  }
  EXPECT_FALSE(fs::exists(file("out") + "/unfinished.json"));
  EXPECT_THAT(headroom("compare " + path + " " + path).out, Not(HasSubstr("says nothing of how processes differ")));
  EXPECT_EQ(headroom(tiny("--processes 3 --rounds 3")).code, 2);
}

TEST_F(LadderCommand, TwoAreNotClimbedIntoOneFolder) {
  const std::string out = file("out");
  fs::create_directory(out);
  std::optional<FileLock> other(std::in_place, out + "/results.json");  // as the first of two holds it
  for (const char* where : {"", " --processes 2"}) {
    const Outcome second = headroom(tiny("--steps 2 --opt arena --out " + out + where));
    EXPECT_EQ(second.code, 1);
    EXPECT_EQ(second.out, "");
    EXPECT_THAT(second.err, AllOf(HasSubstr("another process is writing to"), HasSubstr("out/results.json")));
    EXPECT_FALSE(fs::exists(out + "/results.json"));
  }
  EXPECT_EQ(headroom(tiny("--steps 2 --opt arena --out " + file("elsewhere"))).code, 0);
  other.reset();
  const Outcome first = headroom(tiny("--steps 2 --opt arena --out " + out));
  EXPECT_EQ(first.code, 0);
  EXPECT_THAT(first.err, Not(HasSubstr("finished ladder")));
  EXPECT_FALSE(fs::exists(out + "/results.json.lock"));
  EXPECT_THAT(
      headroom(tiny("--steps 2 --opt arena --out " + out)).err,
      HasSubstr("out/results.json is of a finished ladder: all is measured again, and it is replaced at the end"));
}

/// Runs the program and kills it after so many milliseconds.
void run_and_kill(std::vector<std::string> command, int after_ms) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
}

TEST_F(LadderCommand, GoesOnWhereItWasKilled) {
  const std::string out = file("out"), unfinished = out + "/unfinished.json";
  const std::vector<std::string> options = {
      "--token-rows=4",         "--token-columns=4", "--batch=1", "--trials=3", "--max-rounds=2", "--steps=2", "-q",
      "--opt=arena,fuse,hoist", "--out=" + out};
  std::vector<std::string> ladder = {kHeadroomBinary, "ladder", kTinyLadder};
  ladder.insert(ladder.end(), options.begin(), options.end());
  std::mt19937 engine(20240607);
  std::vector<double> before;
  for (int i = 0; i < 12; ++i) {
    run_and_kill(ladder, 20 + static_cast<int>(engine() % 300));
    if (!fs::exists(unfinished)) {  // not begun, or done
      before.clear();
      continue;
    }
    const auto stored = results_from_json(read_json(unfinished).at("results"), unfinished);
    std::vector<double> now = series_of(stored.results.at(0), "step").time_ms;
    EXPECT_THAT(now, IsSupersetOf(before)) << "what was measured is kept";
    before = std::move(now);
  }
  const std::string line =
      "ladder " + kTinyLadder +
      " --opt arena,fuse,hoist --token-rows 4 --token-columns 4 --batch 1 --max-rounds 2 --steps 2 ";
  if (fs::exists(unfinished)) {
    const Outcome other = headroom(line + "--trials 4 --out " + out);
    EXPECT_EQ(other.code, 1);
    EXPECT_THAT(other.err, AllOf(HasSubstr("unfinished.json holds another ladder"), HasSubstr("trials: 4 against 3")));
  }
  const Outcome outcome = headroom(line + "--trials 3 --out " + out);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const fs::directory_entry& entry : fs::directory_iterator(out))
    EXPECT_TRUE(entry.path().filename() == "results.json" || entry.path().extension() == ".png")
        << entry.path() << " is left of the runs that were killed";
  for (const Result& result : read_results(out + "/results.json").results) {
    std::set<std::int64_t> rounds;
    for (const TrialSeries& series : result.trials)
      if (series.what.starts_with("step")) rounds.insert(series.round.begin(), series.round.end());
    EXPECT_THAT(rounds, IsSupersetOf({0, 1})) << result.name;
  }
}

}  // namespace
}  // namespace headroom
