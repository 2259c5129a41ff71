// A machine whose clock was never set: nothing is measured for a result file that nothing reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/test_paths.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::string kClockedModel =
    std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance --token-rows 4 --token-columns 4 ";

class ClockThatIsNotSet : public ProgramTest {
 protected:
  [[nodiscard]] Outcome in_1970(const std::string& arguments) const {
    return run("env LD_PRELOAD=" + std::string(kFakeClock) + " " + std::string(kHeadroomBinary) + " " + arguments);
  }
};

TEST_F(ClockThatIsNotSet, IsReportedBeforeAnythingIsMeasured) {
  for (const std::string& command :
       {"bench " + kClockedModel + "--out " + file("bench.json"), "bench " + kClockedModel + "--format json",
        "ladder " + kClockedModel + "--opt arena --out " + file("ladder"),
        "profile " + kClockedModel + "--out " + file("profile.json"),
        "sweep " + std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance --steps 2 --out " +
            file("sweep.json")}) {
    const Outcome outcome = in_1970(command);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_EQ(outcome.out, "") << command;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("clock says 1970-01-01T00:01:40Z"), HasSubstr("of the years 2000 to 2199")))
        << command;
  }
  for (const char* name : {"bench.json", "ladder", "profile.json", "sweep.json"})
    EXPECT_FALSE(fs::exists(file(name))) << name;
}

TEST_F(ClockThatIsNotSet, ImagesAndPlansAreMadeAllTheSame) {
  EXPECT_EQ(in_1970("plan " + kClockedModel).code, 0);
  EXPECT_EQ(in_1970("profile " + kClockedModel + "--trials 3").code, 0);
}

}  // namespace
}  // namespace headroom
