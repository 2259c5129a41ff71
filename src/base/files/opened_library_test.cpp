#include "base/files/opened_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(OpenedLibrary, ResolvesFunctionsOrSaysWhatIsMissing) {
  const OpenedLibrary library("arithmetic", "libm.so.6", "glibc 2");
  double (*root)(double) = nullptr;
  library.resolve(root, "sqrt");
  EXPECT_EQ(root(9), 3);
  try {
    library.resolve(root, "no_such_function");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "libm.so.6 has no function no_such_function; install glibc 2 or newer");
  }
}

TEST(OpenedLibrary, SaysWhatNeedsALibraryThatIsNotThere) {
  try {
    const OpenedLibrary library("nothing", "libheadroom-not-there.so.1", "nothing 1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("nothing needs libheadroom-not-there.so.1 (nothing 1), which "));
    EXPECT_THAT(error.what(), testing::HasSubstr("LD_LIBRARY_PATH"));
  }
}

}  // namespace
}  // namespace headroom
