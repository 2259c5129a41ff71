// `headroom tokens` and `headroom train` as a user meets them: the project's documents become tokens, and a small GPT
// learns from them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

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
  EXPECT_THAT(plan.out, HasSubstr(" parameters of gpt2, 7 steps of 256 tokens each"));
  EXPECT_THAT(plan.out, HasSubstr("memory "));

  const std::string train = "train " + file("run.json") + " --out " + file("out");
  const Outcome part = headroom(train + " --steps 20");
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr("step-00000020: 20 steps of 60, loss"));
  const Outcome again = headroom(train);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("the last after step 20: give --resume"));
  const Outcome rest = headroom(train + " --resume");
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
  EXPECT_THAT(error("train " + file("run.json") + " --device cuda", 2), HasSubstr("on a CPU so far"));
}

}  // namespace
}  // namespace headroom
