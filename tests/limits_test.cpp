// The program where the system gives it little: an end in one sentence, or the work done, never a signal or an internal error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class LimitsTest : public ProgramTest {
 protected:
  /// `headroom ARGUMENTS` under a limit of the shell, or several: "-v 100000", "-s 1000000; ulimit -v 900000".
  [[nodiscard]] Outcome under(const std::string& limits, const std::string& arguments) const {
    return run("ulimit " + limits + "; exec " + kHeadroomBinary + " " + arguments);
  }
  /// An address space, in KiB, in which the loader can surely start the program: a build for GPUs is larger. Near the
  /// least one, where the kernel places the libraries decides whether what runs before main() gets its memory.
  [[nodiscard]] int least_to_start() const {
    int kib = 60'000;
    while (kib < 2'000'000 && under("-v " + std::to_string(kib), "--version").code != 0) kib += 10'000;
    return kib + 10'000;
  }
  [[nodiscard]] std::string golden(const std::string& name) const {
    return (std::filesystem::path(kSourceDir) / "tests/goldens" / name).string();
  }
  [[nodiscard]] std::vector<std::string> commands() const {
    return {"run " + golden("pipelines/sd-1.5") + " --prompt x --steps 1 --height 32 --width 32 --quiet --out " +
                file("x.png"),
            "stream " + golden("live_stream/three-levels") + " --input scene:16x16@25:2 --quiet --out " + file("x.y4m"),
            "bench " + golden("flux/tiny-guidance") + " --random-weights 1 --trials 1 --quiet",
            "report " + std::string(kSourceDir) + "/docs/result.example.json --out " + file("report")};
  }
};

TEST_F(LimitsTest, OfAddressSpaceAreSaidInASentence) {
  int refused = 0;
  const int least = least_to_start();
  for (const std::string& command : commands())
    for (int kib = least; kib <= least + 240'000; kib += 30'000) {
      const Outcome outcome = under("-v " + std::to_string(kib), command);
      EXPECT_THAT(outcome.code, AnyOf(0, 1)) << kib << " " << command << "\n" << outcome.err;
      EXPECT_THAT(outcome.err, Not(HasSubstr("internal error"))) << kib << " " << command;
      if (outcome.code == 0) continue;
      ++refused;
      EXPECT_THAT(outcome.err, StartsWith("headroom: ")) << kib << " " << command;
    }
  EXPECT_GT(refused, 8);
}

/// Each thread takes 1 GiB of the address space for its stack.
TEST_F(LimitsTest, OfThreadsAreSaidInASentence) {
  for (const std::string& command : commands()) {
    if (command.starts_with("report")) continue;  // which draws with the threads that there are
    const Outcome outcome = under("-s 1000000; ulimit -v 900000", command + " --threads 2");
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_THAT(outcome.err, AnyOf(HasSubstr("threads cannot be started"), HasSubstr("cannot start another thread")))
        << command;
  }
}

TEST_F(LimitsTest, OfMemoryAreNamedByWhatDoesNotFit) {
  const Outcome outcome =
      under("-v 900000", "run " + golden("pipelines/sd-1.5") +
                             " --prompt x --steps 1 --height 8192 --width 8192 --quiet --out " + file("x.png"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("does not fit in memory as it is asked for"));
  EXPECT_THAT(outcome.err, HasSubstr("address space (ulimit -v), limited to 879 MiB"));
}

}  // namespace
}  // namespace headroom
