#include "plan/step_memory.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace headroom {
namespace {

Step step_that_reads(const std::vector<int>& storages, int scratch = -1) {
  Step step;
  for (const int storage : storages)
    step.input_places.push_back({.storage = storage, .offset_bytes = 0, .strides = {}});
  step.scratch = scratch;
  return step;
}

TEST(StepMemory, CountsWhatIsHeldMadeAndRead) {
  Program program;
  program.storages = {{.kind = StorageKind::kInput, .bytes = 7, .first = 0, .last = 2},
                      {.kind = StorageKind::kWeight, .bytes = 1000, .first = 0, .last = 2},
                      {.kind = StorageKind::kArena, .bytes = 10, .first = 0, .last = 1},
                      {.kind = StorageKind::kArena, .bytes = 20, .first = 1, .last = 2},
                      {.kind = StorageKind::kScratch, .bytes = 300, .first = 1, .last = 1}};
  program.steps.push_back(step_that_reads({0, 1, 1}));  // two views of one weight
  program.steps.push_back(step_that_reads({2}, 4));
  program.steps.push_back(step_that_reads({3}));
  const std::vector<StepMemory> memory = memory_by_step(program);
  ASSERT_EQ(memory.size(), 3U);
  EXPECT_EQ(memory[0], (StepMemory{.activations = 10, .made = 10, .scratch = 0, .weights = 1000}));
  EXPECT_EQ(memory[1], (StepMemory{.activations = 30, .made = 20, .scratch = 300, .weights = 0}));
  EXPECT_EQ(memory[2], (StepMemory{.activations = 20, .made = 0, .scratch = 0, .weights = 0}));
}

TEST(StepMemory, ScratchOfPartsIsOfEveryThread) {
  Program program;
  program.target.threads = 2;
  program.storages = {{.kind = StorageKind::kPart, .bytes = 30, .first = 0, .last = 0},
                      {.kind = StorageKind::kPart, .bytes = 8, .first = 0, .last = 1},
                      {.kind = StorageKind::kArena, .bytes = 2 * 38, .first = 0, .last = 1}};  // the run's memory
  program.steps.push_back(step_that_reads({1}, 0));
  program.steps.push_back(step_that_reads({1}));
  const std::vector<StepMemory> memory = memory_by_step(program);
  EXPECT_EQ(memory[0], (StepMemory{.activations = 16, .made = 76, .scratch = 60, .weights = 0}));
  EXPECT_EQ(memory[1], (StepMemory{.activations = 76, .made = 0, .scratch = 0, .weights = 0}));
}

}  // namespace
}  // namespace headroom
