#include "cli/size_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SizeList, HasWidthsAndHeightsSquaresAndTheModelsOwn) {
  EXPECT_THAT(parse_sizes({"512x768, 64", "own"}, "--resolution", 16'384),
              ElementsAre(ImageSize{.height = 768, .width = 512}, ImageSize{.height = 64, .width = 64}, ImageSize{}));
  for (const char* text : {"512x768", "64x64", "own"})
    EXPECT_EQ(size_text(parse_sizes({text}, "--resolution", 16'384).front()), text);
}

TEST(SizeList, RefusesWhatIsNoSize) {
  for (const char* text : {"0", "x", "512x", "x512", "512x0", "512x768x2", "-512", "0512", "16385", "512 x 768",
                           "512X768", "99999999999999999999", "1e3", ""})
    EXPECT_THAT(error_of([&] { static_cast<void>(parse_sizes({text}, "--resolution", 16'384)); }),
                HasSubstr("--resolution: '"))
        << text;
}

}  // namespace
}  // namespace headroom
