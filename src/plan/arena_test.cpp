#include "plan/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace headroom {
namespace {

std::size_t lower_bound(const std::vector<Storage>& storages) {
  std::size_t most = 0;
  for (const Storage& at : storages) {
    std::size_t live = 0;
    for (const Storage& other : storages)
      if (other.first <= at.first && at.first <= other.last) live += aligned_size(other.bytes);
    most = std::max(most, live);
  }
  return most;
}

void expect_disjoint(const std::vector<Storage>& storages, std::size_t size) {
  for (std::size_t a = 0; a < storages.size(); ++a) {
    EXPECT_LE(storages[a].arena_offset + storages[a].bytes, size);
    EXPECT_EQ(storages[a].arena_offset % kArenaAlignment, 0U);
    for (std::size_t b = a + 1; b < storages.size(); ++b) {
      if (storages[a].first > storages[b].last || storages[b].first > storages[a].last) continue;
      const bool apart = storages[a].arena_offset + storages[a].bytes <= storages[b].arena_offset ||
                         storages[b].arena_offset + storages[b].bytes <= storages[a].arena_offset;
      EXPECT_TRUE(apart) << a << " and " << b;
    }
  }
}

TEST(Arena, StoragesThatNeverMeetShareTheirPlace) {
  std::vector<Storage> storages = {{.bytes = 1024, .first = 0, .last = 1}, {.bytes = 1024, .first = 2, .last = 3}};
  EXPECT_EQ(assign_offsets(storages), 1024U);
  EXPECT_EQ(storages[0].arena_offset, storages[1].arena_offset);
}

TEST(Arena, StoragesLiveAtTheSameStepDoNotOverlap) {
  std::vector<Storage> storages = {{.bytes = 1000, .first = 0, .last = 2}, {.bytes = 24, .first = 2, .last = 3}};
  EXPECT_EQ(assign_offsets(storages), 1024U + 256U);
  expect_disjoint(storages, 1280);
}

TEST(Arena, WeightsAndInputsTakeNoPlace) {
  std::vector<Storage> storages = {{.kind = StorageKind::kWeight, .bytes = 4096, .first = 0, .last = 9},
                                   {.kind = StorageKind::kInput, .bytes = 4096, .first = 0, .last = 9}};
  EXPECT_EQ(assign_offsets(storages), 0U);
}

TEST(Arena, RandomLifetimesAreDisjointAndNearTheBound) {
  std::mt19937 random(7);
  double worst = 1;
  for (int round = 0; round < 30; ++round) {
    std::vector<Storage> storages(120);
    for (Storage& storage : storages) {
      storage.first = static_cast<int>(random() % 100);
      storage.last = storage.first + static_cast<int>(random() % 8);
      storage.bytes = (1 + random() % 64) * 4096;
    }
    const std::size_t bound = lower_bound(storages);
    const std::size_t size = assign_offsets(storages);
    expect_disjoint(storages, size);
    EXPECT_GE(size, bound);
    worst = std::max(worst, static_cast<double>(size) / static_cast<double>(bound));
  }
  EXPECT_LT(worst, 1.2);  // the lifetimes in models are far more regular than these
}

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
