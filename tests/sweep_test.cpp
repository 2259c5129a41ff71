// `headroom sweep` and `headroom history` as a user meets them; above all a sweep that is killed loses nothing.

#include <fcntl.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "measure/results/result.hpp"
#include "program_fixture.hpp"

extern char** environ;

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

const std::string kTiny = std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance";

class SweepCommand : public ProgramTest {
 protected:
  std::set<std::string> cells_in(const std::string& name) const {
    std::set<std::string> ids;
    if (!fs::exists(file(name))) return ids;
    for (const Result& result : read_results(file(name)).results)
      EXPECT_TRUE(ids.insert(result.id).second) << result.id << " is there twice";
    return ids;
  }
};

/// Runs the program and kills it after so many milliseconds; returns whether it had ended by itself.
bool run_and_kill(std::vector<std::string> command, int after_ms) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  if (posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
    throw std::runtime_error("cannot run " + command[0]);
  posix_spawn_file_actions_destroy(&actions);
  std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status);
}

TEST_F(SweepCommand, SurvivesBeingKilledAtRandomMoments) {
  const std::vector<std::string> sweep = {kHeadroomBinary,
                                          "sweep",
                                          kTiny,
                                          "--resolution=16,32,48",
                                          "--steps=1,2,3",
                                          "--batch=1,2",
                                          "--trials=3",
                                          "--opt=baseline",
                                          "--opt=lossless",
                                          "--quiet",
                                          "--out=" + file("killed.json")};
  std::mt19937 engine(20240607);
  std::set<std::string> before;
  int interrupted = 0;
  for (int i = 0; i < 20; ++i) {
    interrupted += run_and_kill(sweep, 20 + static_cast<int>(engine() % 400)) ? 0 : 1;
    const std::set<std::string> now = cells_in("killed.json");  // throws where the file is not valid
    EXPECT_THAT(now, IsSupersetOf(before));
    before = now;
  }
  EXPECT_GT(interrupted, 0);
  const Outcome outcome = run(fmt::format("{}", fmt::join(sweep, " ")));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(cells_in("killed.json").size(), 36U);
  // The same cells as of a sweep that nobody disturbed.
  std::vector<std::string> whole = sweep;
  whole.back() = "--out=" + file("whole.json");
  EXPECT_EQ(run(fmt::format("{}", fmt::join(whole, " "))).code, 0);
  EXPECT_EQ(cells_in("killed.json"), cells_in("whole.json"));
}

TEST_F(SweepCommand, RecordsWhatDoesNotFitAndGoesOn) {
  // 4000 x 4000 tokens: the activations alone would take terabytes.
  const Outcome outcome = headroom(
      "sweep " + kTiny + " --random-weights 0 --resolution 32,16000 --steps 1 --trials 3 -q --opt arena,graph --out " +
      file("sweep.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("out of memory"), HasSubstr("32x32, 1 step, batch 1, random weights 0: graph"),
                    Not(HasSubstr("16000x16000, 1 step, batch 1, random weights 0: graph"))))
      << "of a cell that was not measured";
  const ResultFile saved = read_results(file("sweep.json"));
  ASSERT_EQ(saved.results.size(), 2U);
  EXPECT_FALSE(saved.results[0].trials.empty());
  EXPECT_TRUE(saved.results[1].trials.empty());
  EXPECT_EQ(saved.results[1].tags.back(), "out_of_memory");
  EXPECT_EQ(saved.results[1].subject.request["token_rows"], 1000);
  // The report draws both in one table.
  const Configuration &fits = saved.results[0].configuration, &does_not = saved.results[1].configuration;
  EXPECT_EQ(saved.results[1].name, saved.results[0].name);
  EXPECT_EQ(does_not.asked, fits.asked);
  EXPECT_EQ(does_not.threads, fits.threads);
  EXPECT_EQ(does_not.baseline_dtype, fits.baseline_dtype);
}

TEST_F(SweepCommand, SaysWhatDeclined) {
  const Outcome outcome =
      headroom("sweep " + kTiny + " --opt fp8,arena --steps 1,2 --trials 3 --out " + file("declined.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t note = outcome.err.find("switch fp8 declined: ");
  ASSERT_NE(note, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("switch fp8 declined: ", note + 1), std::string::npos) << "once, not for each cell";
}

TEST_F(SweepCommand, MeasuresCellsInProcessesAndSoNeedsNoProcessNoise) {
  const std::string sweep = "sweep " + kTiny + " --resolution 32 --steps 2 --trials 3 -q --processes 4 --out ";
  ASSERT_EQ(headroom(sweep + file("a.json")).code, 0);
  const ResultFile results = read_results(file("a.json"));
  const TrialSeries& steps = series_of(results.results.at(0), "step");
  EXPECT_EQ(std::set(steps.process.begin(), steps.process.end()), (std::set<std::int64_t>{0, 1, 2, 3}));
  EXPECT_GE(steps.time_ms.size(), 12U);
  ASSERT_EQ(headroom(sweep + file("b.json")).code, 0);
  EXPECT_THAT(headroom("compare " + file("a.json") + " " + file("b.json")).out,
              AllOf(HasSubstr("4, 4"), Not(HasSubstr("one process on each side"))));
}

TEST_F(SweepCommand, MeasuresAgainWhatHasTooFewTrials) {
  const std::string sweep = "sweep " + kTiny + " --resolution 32 --steps 2 --out " + file("a.json");
  ASSERT_EQ(headroom(sweep + " --trials 3").code, 0);
  const Outcome more = headroom(sweep + " --trials 10");
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(more.err, AllOf(HasSubstr("measured again"), HasSubstr("of 10 steps")));
  EXPECT_GE(series_of(read_results(file("a.json")).results.at(0), "step").time_ms.size(), 10U);
  EXPECT_THAT(headroom(sweep + " --trials 10").err, Not(HasSubstr("measured again")));
}

TEST_F(SweepCommand, AsksForOneWorkOnce) {
  const Outcome outcome = headroom("sweep " + kTiny + " --resolution 32 --steps 2 --trials 3 --opt arena,fuse --opt " +
                                   "fuse,arena --out " + file("a.json"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("are the same work"));
}

TEST_F(SweepCommand, ExplainsMistakes) {
  EXPECT_EQ(headroom("sweep " + kTiny).code, 2);
  EXPECT_THAT(headroom("sweep " + kTiny + " --resolution 33 --out " + file("a.json")).err,
              HasSubstr("--resolution is 33, expected a multiple of"));
  EXPECT_EQ(headroom("sweep " + kTiny + " --opt warp --out " + file("a.json")).code, 2);
  EXPECT_EQ(headroom("sweep " + kTiny + " --batch 0 --out " + file("a.json")).code, 2);
  EXPECT_FALSE(fs::exists(file("a.json")));
}

TEST_F(SweepCommand, HistoryShowsASweepOfTheSameRevision) {
  ASSERT_EQ(headroom("sweep " + kTiny + " --resolution 32 --steps 1 --trials 3 -q --out " + file("a.json")).code, 0);
  fs::copy(file("a.json"), file("b.json"));
  write_file_atomically(file("notes.json"), "[]");
  const Outcome outcome = headroom("history --all " + file("."));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("tiny-guidance baseline, step"), HasSubstr("no step found")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("left out"), HasSubstr("notes.json")));
  const json points =
      parse_json(headroom("history -q --all --json " + file(".")).out, "stdout")["histories"][0]["points"];
  ASSERT_EQ(points.size(), 1U) << "one revision is one point";
  EXPECT_EQ(points[0]["runs"], 2);
  EXPECT_EQ(headroom("history " + file("a.json")).code, 1);
  const Outcome nowhere = headroom("history --repository " + file("none") + " " + file("."));
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.err, AllOf(HasSubstr("--repository"), HasSubstr("no git repository")));
}

}  // namespace
}  // namespace headroom
