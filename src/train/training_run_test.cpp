#include "train/training_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "base/files/file_lock.hpp"
#include "base/target.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "io/token_file.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"
#include "train/training_log.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::int64_t kIds = 12, kSteps = 12;

class TrainingRunTest : public testing::Test {
 protected:
  TrainingRunTest() {
    std::vector<std::uint16_t> ids;  // a count that stumbles
    for (int i = 0; i < 600; ++i) ids.push_back(static_cast<std::uint16_t>((i + i / 50) % kIds));
    write_token_file(folder_ / "data.bin", ids, 77);
    config_ = {{"model",
                {{"architectures", {"GPT2LMHeadModel"}},
                 {"model_type", "gpt2"},
                 {"vocab_size", kIds},
                 {"n_positions", 8},
                 {"n_embd", 16},
                 {"n_layer", 2},
                 {"n_head", 2}}},
               {"data", (folder_ / "data.bin").string()},
               {"tokens", 8},
               {"batch", 3},
               {"micro_batches", 2},
               {"steps", kSteps},
               {"seed", 5},
               {"optimizer", {{"clip", 0.5}}},
               {"schedule", {{"learning_rate", 0.01}, {"warmup", 3}}},
               {"validation", {{"data", (folder_ / "data.bin").string()}, {"every", 5}, {"batches", 2}}},
               {"checkpoints", {{"every", 4}, {"keep", 2}}}};
  }

  RunOutcome train(const std::string& out, RunOptions options = {}) const {
    options.out = folder_ / out;
    Trainer trainer(parse_training_config(config_, "config"), SwitchSet::parse("lossless"), *cpu_);
    return run_training(trainer, options);
  }
  [[nodiscard]] std::string error(const std::string& out, const RunOptions& options = {}) const {
    return error_of([&] { static_cast<void>(train(out, options)); });
  }
  /// "step: loss" of each line, and "step: validation loss".
  [[nodiscard]] std::vector<std::string> losses(const std::string& out) const {
    std::vector<std::string> losses;
    std::string text = read_file(folder_ / out / "log.jsonl");
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      const nlohmann::json line = parse_json(text.substr(0, end), "log");
      const bool is_step = line.contains("loss");
      losses.push_back(fmt::format("{}: {}{} {}", line.at("step").get<int>(), is_step ? "" : "validation ",
                                   line.at(is_step ? "loss" : "validation_loss").dump(),
                                   is_step ? line.at("norm").dump() : ""));
    }
    return losses;
  }
  void expect_same(const std::string& one, const std::string& other) const {
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json", "training.json"})
      EXPECT_TRUE(read_file(folder_ / one / checkpoint_name(kSteps) / file) ==
                  read_file(folder_ / other / checkpoint_name(kSteps) / file))
          << file;
    EXPECT_EQ(losses(one), losses(other));
  }

  TempFolder folder_;
  nlohmann::json config_;
  std::unique_ptr<Backend> cpu_ = make_backend(DeviceKind::kCpu);
};

TEST_F(TrainingRunTest, LearnsAndIsTheSameBitForBitAgain) {
  double first = 0, last = 0;
  RunOptions options;
  options.on_step = [&](const StepRecord& record) { (record.step == 1 ? first : last) = record.loss; };
  const RunOutcome outcome = train("one", options);
  EXPECT_NEAR(first, std::log(kIds), 0.1);
  EXPECT_LT(last, first - 0.1);
  EXPECT_LT(outcome.validation.value(), first - 0.1);
  EXPECT_EQ(outcome.last_step, kSteps);
  EXPECT_FALSE(outcome.was_stopped);
  static_cast<void>(train("two"));
  expect_same("one", "two");
  EXPECT_EQ(losses("one").size(), kSteps + 3U);
}

TEST_F(TrainingRunTest, ContinuesBitForBit) {
  static_cast<void>(train("whole"));
  RunOptions to_five{.last_step = 5};
  EXPECT_EQ(train("parts", to_five).checkpoint, folder_ / "parts" / checkpoint_name(5));
  int asked = 0;
  RunOptions two_more{.resume = true, .should_stop = [&] { return ++asked == 2; }};
  const RunOutcome stopped = train("parts", two_more);
  EXPECT_EQ(stopped.first_step, 5);
  EXPECT_EQ(stopped.last_step, 7);
  EXPECT_TRUE(stopped.was_stopped);
  EXPECT_EQ(train("parts", {.resume = true}).last_step, kSteps);
  expect_same("whole", "parts");
  const RunOutcome nothing = train("parts", {.resume = true});
  EXPECT_EQ(nothing.first_step, nothing.last_step);
}

TEST_F(TrainingRunTest, ContinuesBitForBitAfterItWasKilled) {
  static_cast<void>(train("whole"));
  for (const std::int64_t last : {3, 6, 9}) {  // before the first checkpoint, and two steps after one
    const RunOptions killed{.resume = true, .on_step = [&](const StepRecord& record) {
                              if (record.step == last) throw std::runtime_error("killed");
                            }};
    EXPECT_THROW(static_cast<void>(train("killed", killed)), std::runtime_error);
    EXPECT_EQ(losses("killed").back().substr(0, 2), fmt::format("{}:", last)) << "which its checkpoint does not have";
  }
  EXPECT_EQ(train("killed", {.resume = true}).first_step, 8);
  expect_same("whole", "killed");
}

TEST_F(TrainingRunTest, KeepsTheLastCheckpoints) {
  fs::create_directories(folder_ / "out/step-00000012/rest");  // of a removal that was cut short
  fs::create_directories(folder_ / "out/step-other");
  static_cast<void>(train("out"));
  std::vector<std::int64_t> steps;
  for (const auto& [step, path] : list_checkpoints(folder_ / "out")) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(8, 12));
  EXPECT_FALSE(fs::exists(folder_ / "out" / checkpoint_name(4)));
  EXPECT_TRUE(fs::exists(folder_ / "out/step-other"));
}

/// The checkpoint is a model like any other: `forward` gives the loss that the run reported.
TEST_F(TrainingRunTest, WritesAModelThatOpens) {
  config_["validation"]["batches"] = 1;
  const RunOutcome outcome = train("out");
  const Component model = open_component(outcome.checkpoint.string());
  WeightStore store(*cpu_, model.checkpoint);
  const ForwardPass pass = make_forward_pass(model, model.kind->passes[0], {{"input_ids", {3, 8}}}, [](Session&) {});
  Session session(compile(pass, SwitchSet::parse("lossless"), cpu_->properties().target).program, store, *cpu_);
  const TokenFile data = TokenFile::open(folder_ / "data.bin");
  HostTensor ids(DType::kI32, {3, 8});
  for (std::int64_t i = 0; i < 24; ++i) ids.set(i, data.ids()[static_cast<std::size_t>(i)]);
  session.set_input("input_ids", ids);
  session.run();
  const HostTensor logits = session.output("logits");
  double loss = 0;
  for (std::int64_t i = 0; i < 24; ++i) {
    double sum = 0;
    for (std::int64_t id = 0; id < kIds; ++id) sum += std::exp(logits.at(i * kIds + id));
    loss += std::log(sum) - logits.at(i * kIds + data.ids()[static_cast<std::size_t>(i) + 1]);
  }
  EXPECT_NEAR(loss / 24, outcome.validation.value(), 1e-5);
}

/// The files of weights hold the running means, and a run goes on from the weights themselves.
TEST_F(TrainingRunTest, AveragesWeights) {
  static_cast<void>(train("plain"));
  config_["averages"] = {{"decay", 0.9}};
  config_["loss_scaling"] = {{"initial", 1024}, {"interval", 3}};
  static_cast<void>(train("whole"));
  static_cast<void>(train("parts", {.last_step = 5}));
  static_cast<void>(train("parts", {.resume = true}));
  expect_same("whole", "parts");
  const fs::path last = checkpoint_name(kSteps);
  const SafetensorsFile plain = SafetensorsFile::open(folder_ / "plain" / last / "model.safetensors");
  const SafetensorsFile averages = SafetensorsFile::open(folder_ / "whole" / last / "model.safetensors");
  const SafetensorsFile rest = SafetensorsFile::open(folder_ / "whole" / last / "optimizer.safetensors");
  EXPECT_EQ(rest.read("loss_scale").at(0), 16384) << "doubled every third step";
  const std::string name = "transformer.h.0.mlp.c_fc.weight";
  const HostTensor trained = rest.read(name);
  EXPECT_LT(relative_l2(trained, plain.read(name)), 1e-5) << "neither changes what is learned";
  EXPECT_GT(relative_l2(trained, averages.read(name)), 1e-3);
  EXPECT_LT(relative_l2(trained, averages.read(name)), 0.5);
}

TEST_F(TrainingRunTest, ValidatesWithTheAverages) {
  config_["averages"] = {{"decay", 1e-6}};  // which are then the weights
  const RunOutcome same = train("same");
  config_.erase("averages");
  const RunOutcome plain = train("plain");
  EXPECT_NEAR(same.validation.value(), plain.validation.value(), 1e-5);
  config_["averages"] = {{"decay", 0.999}};
  EXPECT_GT(train("slow").validation.value(), plain.validation.value() + 0.01);
}

TEST_F(TrainingRunTest, ValidatesOverTheSameSequencesInAnyMicroBatches) {
  const double two = train("two").validation.value();
  config_["batch"] = 6;
  config_["micro_batches"] = 1;
  EXPECT_NEAR(train("one").validation.value(), two, 1e-5);
}

TEST_F(TrainingRunTest, AStopEndsAValidation) {
  config_["validation"]["batches"] = 1'000'000;
  std::int64_t asked = 0;
  const RunOutcome outcome = train("out", {.should_stop = [&] { return ++asked == 20; }});
  EXPECT_TRUE(outcome.was_stopped);
  EXPECT_EQ(outcome.last_step, 5) << "after which the first validation begins";
  EXPECT_FALSE(outcome.validation.has_value());
  EXPECT_EQ(outcome.checkpoint.filename(), checkpoint_name(5));
}

TEST_F(TrainingRunTest, StartsFromAFolderAndKeepsWhatIsFrozen) {
  const fs::path start = train("first").checkpoint;
  const double before = train("first", {.resume = true}).validation.value_or(0);
  EXPECT_EQ(before, 0) << "nothing was to be done";
  config_["model"] = start.string();
  config_["frozen"] = "\\.h\\.0\\.|wte";
  config_["schedule"]["learning_rate"] = 1e-3;
  double first_loss = 0;
  RunOptions options;
  options.on_step = [&](const StepRecord& record) {
    if (record.step == 1) first_loss = record.loss;
  };
  static_cast<void>(train("second", options));
  EXPECT_LT(first_loss, std::log(kIds) - 0.1) << "it knows what the first run learned";
  const SafetensorsFile old = SafetensorsFile::open(start / "model.safetensors");
  const SafetensorsFile now = SafetensorsFile::open(folder_ / "second" / checkpoint_name(kSteps) / "model.safetensors");
  EXPECT_EQ(now.entries().size(), old.entries().size());
  for (const auto& [name, entry] : old.entries()) {
    const bool is_frozen = name.find(".h.0.") != std::string::npos || name.find("wte") != std::string::npos;
    EXPECT_EQ(std::ranges::equal(old.bytes(name), now.bytes(name)), is_frozen) << name;
  }
  const SafetensorsFile optimizer =
      SafetensorsFile::open(folder_ / "second" / checkpoint_name(kSteps) / "optimizer.safetensors");
  EXPECT_FALSE(optimizer.has(first_moment_name("transformer.wte.weight")));

  static_cast<void>(train("parts", {.last_step = 5}));
  static_cast<void>(train("parts", {.resume = true}));
  expect_same("second", "parts");
  static_cast<void>(train("moved", {.last_step = 5}));
  config_["model"] = (folder_ / "second" / checkpoint_name(kSteps)).string();
  EXPECT_EQ(error("moved", {.resume = true, .last_step = 6}), "(no error)") << "that has the same frozen weights";
  const std::map<std::string, HostTensor> zeros = [&] {
    std::map<std::string, HostTensor> tensors;
    for (const auto& [name, entry] : old.entries()) tensors.emplace(name, HostTensor(entry.dtype, entry.shape));
    return tensors;
  }();
  fs::copy(start, folder_ / "zeros", fs::copy_options::recursive);
  write_safetensors(folder_ / "zeros/model.safetensors", zeros);
  config_["model"] = (folder_ / "zeros").string();
  EXPECT_THAT(error("moved", {.resume = true}), HasSubstr("was trained with another frozen transformer."));
  std::map<std::string, HostTensor> integers = zeros;
  integers.insert_or_assign("transformer.ln_f.bias", HostTensor(DType::kI8, {16}));
  write_safetensors(folder_ / "zeros/model.safetensors", integers);
  EXPECT_THAT(error("third"), HasSubstr("transformer.ln_f.bias is i8, and only floats are trained"));
  config_["frozen"] = "nothing";
  EXPECT_THAT(error("third"), HasSubstr("frozen: \"nothing\" matches no weight"));
}

TEST_F(TrainingRunTest, LearnsInBf16) {
  if (const std::string obstacle = obstacle_to(Capability::kBf16, cpu_->properties().target); !obstacle.empty())
    GTEST_SKIP() << obstacle;
  config_["precision"] = "bf16";
  static_cast<void>(train("whole"));
  static_cast<void>(train("parts", {.last_step = 5}));
  const RunOutcome half = train("parts", {.resume = true});
  expect_same("whole", "parts");
  config_["precision"] = "f32";
  EXPECT_NEAR(half.validation.value(), train("single").validation.value(), 0.02);
  EXPECT_THAT(error("parts", {.resume = true}),
              HasSubstr("was trained with another 'precision': \"bf16\", not \"f32\""));
  config_["precision"] = "f16";
  EXPECT_THAT(error("half"), HasSubstr("precision f16: float16 runs on NVIDIA GPUs"));
}

/// transformers warns of a configuration whose tokens are not in the vocabulary.
TEST_F(TrainingRunTest, NamesTheTokenOfADocumentsBeginning) {
  const fs::path checkpoint = train("out", {.last_step = 1}).checkpoint;
  const nlohmann::json config = read_json(checkpoint / "config.json");
  EXPECT_EQ(config.at("eos_token_id"), 0);
  EXPECT_EQ(config.at("bos_token_id"), 0);
  config_["model"]["eos_token_id"] = 3;
  EXPECT_EQ(read_json(train("other", {.last_step = 1}).checkpoint / "config.json").at("eos_token_id"), 3);
}

TEST_F(TrainingRunTest, RefusesToContinueAnotherRun) {
  static_cast<void>(train("out", {.last_step = 1}));
  EXPECT_THAT(error("out"), HasSubstr("has checkpoints of a run, the last after step 1: give --resume"));
  nlohmann::json before = config_;
  config_["optimizer"]["clip"] = 0.25;
  EXPECT_THAT(error("out", {.resume = true}), HasSubstr("was trained with another 'optimizer.clip': 0.5, not 0.25"));
  config_ = before;
  config_["seed"] = 6;
  EXPECT_THAT(error("out", {.resume = true}), HasSubstr("was trained with another 'seed': 5, not 6"));
  config_ = before;
  config_["checkpoints"] = {{"every", 5}};
  config_["validation"]["every"] = 7;
  EXPECT_EQ(error("out", {.resume = true, .last_step = 1}), "(no error)");
  write_token_file(folder_ / "data.bin", std::vector<std::uint16_t>(600, 1), 78);
  EXPECT_THAT(error("out", {.resume = true}), HasSubstr("was trained on other data"));
}

TEST_F(TrainingRunTest, RefusesAFolderThatAnotherRunWritesTo) {
  fs::create_directories(folder_ / "out");
  const FileLock other(folder_ / "out/log.jsonl");
  EXPECT_THAT(error("out"), HasSubstr("another process is writing to " + (folder_ / "out/log.jsonl").native()));
}

TEST_F(TrainingRunTest, RefusesWhatDoesNotFit) {
  write_token_file(folder_ / "data.bin", std::vector<std::uint16_t>(600, kIds), 0);
  EXPECT_THAT(error("out"), HasSubstr("has the id 12, but the model's vocab_size is 12"));
  write_token_file(folder_ / "data.bin", std::vector<std::uint16_t>(600, 1), 0);
  const TrainingConfig config = parse_training_config(config_, "config");
  EXPECT_THAT(error_of([&] { static_cast<void>(Trainer(config, SwitchSet::parse("bf16"), *cpu_)); }),
              HasSubstr("switch 'bf16' changes the numbers"));
  config_["tokens"] = 9;
  EXPECT_THAT(error("out"), HasSubstr("tokens is 9, but the model's n_positions is 8"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(TrainingRunTest, TellsOfAStepThatIsSkipped) {
  config_["initialization"] = nlohmann::json::array({{{"constant", 1e30}}});  // logits overflow
  bool was_skipped = false;
  static_cast<void>(
      train("out", {.last_step = 1, .on_step = [&](const StepRecord& record) { was_skipped = record.is_skipped(); }}));
  EXPECT_TRUE(was_skipped);
  EXPECT_THAT(read_file(folder_ / "out/log.jsonl"), HasSubstr(R"("skipped":true)"));
}

TEST(TrainingLog, DropsLinesAfterAStepAndOneThatIsCut) {
  const TempFolder folder;
  write_file_atomically(folder / "log.jsonl",
                        std::string_view("{\"step\":1}\n{\"step\":2,\"x\":0}\n{\"step\":3}\n{\"st"));
  {
    TrainingLog log(folder / "log.jsonl", 2);
    log.append({{"step", 3}, {"y", 1}});
    log.flush();
  }
  EXPECT_EQ(read_file(folder / "log.jsonl"), "{\"step\":1}\n{\"step\":2,\"x\":0}\n{\"step\":3,\"y\":1}\n");
}

}  // namespace
}  // namespace headroom
