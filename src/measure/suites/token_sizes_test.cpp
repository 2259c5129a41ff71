#include "measure/suites/token_sizes.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

ResultFile file_of(const Subject& subject) {
  ResultFile file;
  file.results.emplace_back().subject = subject;
  return file;
}

TEST(TokenSizes, AreThoseOfTheModelsThatTheProgramKnows) {
  TokenSizes sizes;
  Subject subject{
      .kind = SubjectKind::kModel, .name = "a-flux", .request = {{"token_rows", 32}, {"token_columns", 32}}};
  EXPECT_EQ(sizes.of(subject), std::nullopt);
  subject.name = "flux-dev";
  EXPECT_EQ(sizes.of(subject), 16);
  subject.name = "fashion-flux";
  EXPECT_EQ(sizes.of(subject), 2);
  subject.name = "../fashion-flux";
  EXPECT_EQ(sizes.of(subject), std::nullopt) << "a name is no path";

  subject.name = "FLUX.1-dev";
  subject.parameters = 11'901'408'320;
  TokenSizes of_file;
  of_file.add(file_of(subject));
  EXPECT_EQ(of_file.of(subject), 16) << "as many parameters as flux-dev";
}

}  // namespace
}  // namespace headroom
