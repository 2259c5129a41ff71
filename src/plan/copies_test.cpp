#include "plan/copies.hpp"

#include <gtest/gtest.h>

#include <map>

namespace headroom {
namespace {

/// What lies in each storage after the copies, where each held its own number.
std::map<int, int> run(const std::vector<StorageCopy>& copies) {
  std::map<int, int> held;
  const auto content = [&](int storage) { return held.contains(storage) ? held[storage] : storage; };
  for (const StorageCopy& copy : copies) held[copy.to] = content(copy.from);
  return held;
}

TEST(Copies, EachReadsWhatWasThereBeforeAll) {
  const std::vector<StorageCopy> chain = {{1, 2, 0}, {2, 3, 1}, {0, 1, 2}};
  EXPECT_EQ(run(in_order(chain, 9)), (std::map<int, int>{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(in_order(chain, 9).size(), 3U);
}

TEST(Copies, ACircleGoesThroughASpareStorage) {
  const std::vector<StorageCopy> swap = {{1, 2, 0}, {2, 1, 1}};
  EXPECT_EQ(in_order(swap, 9), (std::vector<StorageCopy>{{9, 2, 0}, {2, 1, 1}, {1, 9, 0}}));
  std::vector<StorageCopy> two = {{1, 2, 0}, {2, 3, 1}, {3, 1, 2}, {4, 5, 3}, {5, 4, 4}, {6, 5, 5}};
  std::map<int, int> held = run(in_order(two, 9));
  for (const StorageCopy& copy : two) EXPECT_EQ(held[copy.to], copy.from);
  EXPECT_TRUE(held.contains(10)) << "two circles, two spare storages";
}

}  // namespace
}  // namespace headroom
