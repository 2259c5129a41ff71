// `headroom tokens` and `headroom train` as a user meets them: the project's documents become tokens, and a small GPT
// learns from them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/text/json.hpp"
#include "io/token_file.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TrainTest : public ProgramTest {
 protected:
  void make_tokens() {
    const std::string docs = (source_dir(kSourceDir) / "docs/how-to").string();
    const Outcome made =
        headroom("tokens " + docs + "/*.md --vocabulary 300 --validation 5% --json --out " + file("text/data.bin"));
    ASSERT_EQ(made.code, 0) << made.err;
    summary_ = parse_json(made.out, "tokens");
  }
  void write_config() {
    write_json(file("run.json"), {{"model",
                                   {{"architectures", {"GPT2LMHeadModel"}},
                                    {"model_type", "gpt2"},
                                    {"vocab_size", 300},
                                    {"n_positions", 32},
                                    {"n_embd", 32},
                                    {"n_layer", 1},
                                    {"n_head", 2}}},
                                  {"data", file("text/data.bin")},
                                  {"tokens", 32},
                                  {"batch", 8},
                                  {"steps", 60},
                                  {"schedule", {{"learning_rate", 0.01}}},
                                  {"validation", {{"data", file("text/data.val.bin")}, {"every", 60}}}});
  }
  nlohmann::json summary_;
};

TEST_F(TrainTest, LearnsFromDocuments) {
  make_tokens();
  EXPECT_EQ(summary_["vocabulary"], 300);
  EXPECT_GT(summary_["tokens"].get<int>(), 10'000);
  EXPECT_EQ(std::ssize(TokenFile::open(file("text/data.bin")).ids()), summary_["tokens"].get<std::int64_t>());
  EXPECT_TRUE(fs::exists(file("text/tokenizer.json")));
  write_config();
  const Outcome plan = headroom("train " + file("run.json") + " --dry-run --set steps=7");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr(" parameters of GPT2LMHeadModel, 7 steps of 256 tokens each"));
  EXPECT_THAT(plan.out, HasSubstr("memory "));

  for (const auto& [setting, reason] :
       {std::pair("'initialization=[{\"names\":\"bias\",\"constant\":1}]'",
                  "no rule of `initialization` matches the weight "),
        {"batch=1000000 --set model.n_embd=4096", "does not fit in memory as it is asked for: it needs "}}) {
    const Outcome outcome = headroom("train " + file("run.json") + " --dry-run --set " + setting);
    EXPECT_EQ(outcome.code, 1) << setting;
    EXPECT_THAT(outcome.err, HasSubstr(reason));
  }
  const Outcome longer = headroom("train " + file("run.json") + " --dry-run --steps 61");
  EXPECT_EQ(longer.code, 2);
  EXPECT_THAT(longer.err, HasSubstr("--steps 61: the run ends after 60 steps, its key steps"));

  const std::string train = "train " + file("run.json") + " --out " + file("out");
  const Outcome part = headroom(train + " --steps 20");
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr("step-00000020: 20 steps of 60, loss"));
  const Outcome again = headroom(train);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("the last after step 20: give --resume"));
  const Outcome rest = headroom(train + " --resume --mfu --save " + file("training.json"));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("step-00000060: 60 steps of 60, loss"));
  EXPECT_EQ(headroom(train + " --resume").code, 0);
  const Outcome opened = headroom("models " + file("out/step-00000060"));
  EXPECT_THAT(opened.out, HasSubstr("GPT2LMHeadModel"));

  std::string log = read_file(file("out/log.jsonl"));
  const auto line = [&](std::size_t begin) {
    return parse_json(log.substr(begin, log.find('\n', begin) - begin), "log");
  };
  const double first = line(0)["loss"], last = line(log.rfind('\n', log.size() - 2) + 1)["validation_loss"];
  EXPECT_NEAR(first, std::log(300), 0.1);
  EXPECT_LT(last, first - 1);

  // The log has the share of the machine's rate from where it was asked for, and the result file the same times.
  EXPECT_FALSE(line(0).contains("mfu"));
  EXPECT_GT(line(0)["memory_bytes"].get<double>(), 100'000);
  const auto step_line = [&](int step) {
    return line(log.rfind('\n', log.find(fmt::format("\"step\":{},", step))) + 1);
  };
  EXPECT_GT(step_line(21)["mfu"].get<double>(), 0);
  const nlohmann::json result = parse_json(read_file(file("training.json")), "result")["results"][0];
  EXPECT_EQ(result["subject"]["request"]["pass"], "training step");
  const nlohmann::json times = result["trials"][0]["time"];
  ASSERT_EQ(times.size(), 37U) << "40 steps, of which 3 warm up";
  EXPECT_EQ(times[0], step_line(24)["ms"]);
  EXPECT_GT(result["memory"]["state_bytes"].get<double>(), 0);
  EXPECT_EQ(result["trials"][0]["conditions"]["preemptions"].size(), 37U) << "so that disturbed times are unsettled";
  const Outcome report = headroom("report " + file("training.json") + " --out " + file("report"));
  EXPECT_EQ(report.code, 0) << report.err;
}

TEST_F(TrainTest, AnInterruptionWritesACheckpoint) {
  make_tokens();
  write_config();
  const std::string command = program() + " train " + file("run.json") + " --set steps=100000 --out " + file("out");
  const Outcome outcome = run("{ " + command + " & until [ -s " + file("out/log.jsonl") +
                              " ]; do sleep 0.01; done; kill -TERM $!; wait $!; kill -l $?; }");
  EXPECT_THAT(outcome.out, HasSubstr("TERM")) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("wrote " + file("out/step-")));
  const Outcome resumed =
      headroom("train " + file("run.json") + " --set steps=100000 --resume --steps 1 --out " + file("out"));
  EXPECT_THAT(resumed.out, HasSubstr("nothing was to be done")) << resumed.err;
}

/// A small run that writes a checkpoint every second step, and is killed again and again.
class KilledTest : public ProgramTest {
 protected:
  KilledTest() {
    std::vector<std::uint16_t> ids;
    for (int i = 0; i < 600; ++i) ids.push_back(static_cast<std::uint16_t>((i + i / 50) % 12));
    write_token_file(file("data.bin"), ids, 1);
    write_json(file("run.json"), {{"model",
                                   {{"architectures", {"GPT2LMHeadModel"}},
                                    {"model_type", "gpt2"},
                                    {"vocab_size", 12},
                                    {"n_positions", 8},
                                    {"n_embd", 8},
                                    {"n_layer", 1},
                                    {"n_head", 2}}},
                                  {"data", file("data.bin")},
                                  {"tokens", 8},
                                  {"batch", 2},
                                  {"micro_batches", 2},
                                  {"steps", 8},
                                  {"validation", {{"data", file("data.bin")}, {"every", 3}, {"batches", 1}}},
                                  {"checkpoints", {{"every", 2}, {"keep", 2}}}});
  }

  /// `environment` is that of tests/fake/killer.c.
  [[nodiscard]] Outcome train(const std::string& out, const std::string& environment) const {
    return run("env LD_PRELOAD=" + std::string(kFakeKiller) + " " + environment + " " + command(out));
  }
  [[nodiscard]] std::string command(const std::string& out) const {
    return program() + " train " + file("run.json") + " --resume --threads 1 --out " + file(out);
  }
  /// Every file below the folder by its path; of the log what does not depend on the time.
  [[nodiscard]] std::map<std::string, std::string> files(const std::string& out) const {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(file(out))) {
      const std::string name = fs::relative(entry.path(), file(out)).native();
      if (entry.is_directory())
        files.emplace(name, "");
      else
        files.emplace(name, name == "log.jsonl" ? losses(entry.path()) : read_file(entry.path()));
    }
    return files;
  }
  static std::string losses(const fs::path& log) {
    std::string losses, text = read_file(log);
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      const nlohmann::json line = parse_json(text.substr(0, end), "log");
      for (const char* key : {"step", "loss", "norm", "rate", "validation_loss"})
        if (line.contains(key)) losses += line.at(key).dump() + " ";
    }
    return losses;
  }
};

TEST_F(KilledTest, ContinuesBitForBitFromAnyChangeOfAFile) {
  ASSERT_EQ(train("whole", "KILL_COUNT=" + file("count")).code, 0);
  const int changes = std::stoi(read_file(file("count")));
  EXPECT_GT(changes, 100);
  const std::map<std::string, std::string> whole = files("whole");
  std::mt19937 draw(20);
  for (int kills = 0, runs = 0; kills < 12; ++runs) {
    const std::string out = "out" + std::to_string(runs);
    for (bool was_killed = true; was_killed; kills += static_cast<int>(was_killed)) {
      const Outcome outcome = train(out, "KILL_AT=" + std::to_string(1 + draw() % static_cast<unsigned>(changes)));
      was_killed = outcome.code == -1 || outcome.code == 128 + SIGKILL;
      ASSERT_TRUE(was_killed || outcome.code == 0) << outcome.code << " " << outcome.err;
    }
    EXPECT_TRUE(files(out) == whole) << out;
  }
}

/// Which moments these are depends on the machine, and the result must not.
TEST_F(KilledTest, ContinuesBitForBitFromAnyMoment) {
  ASSERT_EQ(train("whole", "").code, 0);
  std::random_device draw;
  for (int kills = 0; kills < 4; ++kills) {
    const std::string after = std::to_string(0.4 * draw() / std::random_device::max());
    static_cast<void>(run("timeout -s KILL " + after + " " + command("out")));
  }
  ASSERT_EQ(train("out", "").code, 0);
  EXPECT_TRUE(files("out") == files("whole"));
}

TEST_F(TrainTest, SaysWhatIsWrong) {
  const auto error = [&](const std::string& arguments, int code) {
    const Outcome outcome = headroom(arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    return outcome.err;
  };
  write_file_atomically(file("a.txt"), std::string_view("text"));
  EXPECT_THAT(error("tokens " + file("a.txt") + " --out " + file("a.bin"), 2), HasSubstr("either --tokenizer DIR"));
  EXPECT_THAT(error("tokens " + file("a.txt") + " --vocabulary 300 --out -", 2), HasSubstr("kept in a file"));
  EXPECT_THAT(error("tokens " + file("a.txt") + " --out " + file("a.txt") + " --vocabulary 300", 2), HasSubstr(".bin"));
  EXPECT_THAT(error("tokens " + file("a.txt") + " --out " + file("a.bin") + " --vocabulary 256", 2), HasSubstr("257"));
  write_config();
  EXPECT_THAT(error("train " + file("run.json"), 1), HasSubstr("data.bin"));
  EXPECT_THAT(error("train " + file("run.json") + " --set batch=0", 1), HasSubstr("batch is 0, expected 1 to"));
  EXPECT_THAT(error("train " + file("run.json") + " --set batch", 2), HasSubstr("expected KEY=VALUE"));
}

}  // namespace
}  // namespace headroom
