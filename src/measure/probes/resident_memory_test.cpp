#include "measure/probes/resident_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>

namespace headroom {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 20U;
// Tolerance for other allocations of the process meanwhile; AddressSanitizer's shadow memory is an eighth of a block.
constexpr std::size_t kSlack = std::size_t{16} << 20U;

// Mapped directly, because a heap may keep freed memory.
class TouchedBlock {
 public:
  TouchedBlock() : data_(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ != MAP_FAILED) std::memset(data_, 1, kBlock);
  }
  ~TouchedBlock() { munmap(data_, kBlock); }
  TouchedBlock(const TouchedBlock&) = delete;
  TouchedBlock& operator=(const TouchedBlock&) = delete;
  [[nodiscard]] bool valid() const { return data_ != MAP_FAILED; }

 private:
  void* data_;
};

TEST(ResidentMemory, PeakRemembersWhatWasFreedUntilReset) {
  const auto before = resident_memory();
  if (!before) GTEST_SKIP() << "this system does not report resident memory";
  EXPECT_GT(before->now_bytes, 0U);
  EXPECT_GE(before->peak_bytes, before->now_bytes);
  {
    const TouchedBlock block;
    ASSERT_TRUE(block.valid());
    EXPECT_GE(resident_memory()->now_bytes + kSlack, before->now_bytes + kBlock);
  }
  const auto after = resident_memory();
  EXPECT_LE(after->now_bytes, before->now_bytes + kSlack);
  EXPECT_GE(after->peak_bytes + kSlack, before->now_bytes + kBlock);

  if (!reset_peak_resident()) GTEST_SKIP() << "this system does not permit resetting the peak";
  EXPECT_LE(resident_memory()->peak_bytes, before->now_bytes + 2 * kSlack);
}

}  // namespace
}  // namespace headroom
