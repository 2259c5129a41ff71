#include "run/session/recordings.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace headroom {
namespace {

class Tape final : public Recording {
 public:
  void replay(Stream& /*stream*/) override {}
};

TEST(Recordings, AreKeptForTheSetsBoundLast) {
  std::byte memory{};
  const auto at = [&](std::size_t offset) { return std::vector<DevicePointer>{{&memory, offset}}; };
  Recordings recordings;
  const auto use = [&](std::size_t offset) {
    recordings.choose(at(offset));
    for (const int first : {0, 3})
      if (recordings.find(first) == nullptr) recordings.add(first, std::make_unique<Tape>());
    return recordings.made();
  };
  EXPECT_EQ(use(0), 2);
  EXPECT_EQ(use(1), 4);
  const Recording* const of_the_first = (recordings.choose(at(0)), recordings.find(3));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(use(1), 4);
    EXPECT_EQ(use(0), 4);
  }
  EXPECT_EQ(recordings.find(3), of_the_first);
  EXPECT_EQ(recordings.find(4), nullptr);
  EXPECT_EQ(use(2), 6);
  EXPECT_EQ(use(3), 8);
  EXPECT_EQ(use(0), 8);
  EXPECT_EQ(use(4), 10);  // replaces 1, the least recently used one
  EXPECT_EQ(use(0), 10);
  EXPECT_EQ(use(2), 10);
  EXPECT_EQ(use(3), 10);
  EXPECT_EQ(use(1), 12);
}

}  // namespace
}  // namespace headroom
