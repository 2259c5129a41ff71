#include "measure/quality/picture_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "measure/quality/flip.hpp"

namespace headroom {
namespace {

/// One picture for each of `shades`, with 3 channels and 4x5 pixels.
HostTensor make_pictures_of(const std::vector<float>& shades) {
  HostTensor pictures(DType::kF32, {static_cast<std::int64_t>(shades.size()), 3, 4, 5});
  for (std::size_t i = 0; i < pictures.as<float>().size(); ++i) pictures.as<float>()[i] = shades[i / 60];
  return pictures;
}

TEST(PictureComparison, TellsPsnrAndFlipWithIntervalsOverPictures) {
  PictureComparison comparison;
  comparison.add(make_pictures_of({0, 0.5F}), make_pictures_of({0.1F, 0.5F}));
  comparison.add(make_pictures_of({-0.5F}), make_pictures_of({-0.6F}));
  ASSERT_EQ(comparison.count(), 3);
  const std::vector<QualityRecord> records = comparison.records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].metric, "psnr_db");
  EXPECT_EQ(records[0].against, "baseline, 3 images, same seeds");
  EXPECT_NEAR(records[0].value.value(), 10 * std::log10(4 / (2 * 0.01 / 3)), 1e-4);
  ASSERT_TRUE(records[0].interval);
  EXPECT_LT(records[0].interval->low, *records[0].value);
  EXPECT_EQ(records[1].metric, "flip");
  const std::vector<float> grey(60, 0.0F), lighter(60, 0.1F), dark(60, -0.5F), darker(60, -0.6F);
  EXPECT_NEAR(records[1].value.value(), (flip(grey, lighter, 3, 4, 5) + flip(dark, darker, 3, 4, 5)) / 3, 1e-12);
  ASSERT_TRUE(records[1].interval);
  EXPECT_GT(records[1].interval->high, *records[1].value);
}

TEST(PictureComparison, TellsThatPicturesAreIdentical) {
  PictureComparison comparison;
  comparison.add(make_pictures_of({0, 2}), make_pictures_of({0, 3}));  // both white after clamping
  const std::vector<QualityRecord> records = comparison.records();
  EXPECT_EQ(records[0].note, "identical");
  EXPECT_FALSE(records[0].value);
  EXPECT_EQ(records[1].value, 0);
}

TEST(PictureComparison, RefusesWhatIsNoPair) {
  PictureComparison comparison;
  EXPECT_THROW(comparison.add(make_pictures_of({0}), make_pictures_of({0, 0})), Error);
  EXPECT_THROW(comparison.add(make_pictures_of({0}), make_pictures_of({std::numeric_limits<float>::infinity()})),
               Error);
  EXPECT_THROW((void)comparison.records(), Error);
}

}  // namespace
}  // namespace headroom
