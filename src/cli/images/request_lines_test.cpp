#include "cli/images/request_lines.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace headroom {
namespace {

TEST(RequestLines, EndWithALineFeedOrTheInput) {
  std::istringstream in("{}\n\na\r\nlast");
  std::string line;
  for (const char* const expected : {"{}", "", "a\r", "last"}) {
    EXPECT_EQ(read_request_line(in, line), RequestLine::kWhole);
    EXPECT_EQ(line, expected);
  }
  EXPECT_EQ(read_request_line(in, line), RequestLine::kEnd);
}

TEST(RequestLines, ThatAreTooLongAreReadPast) {
  const std::string longest(kMostRequestBytes, 'x');
  std::istringstream in(longest + "\n" + longest + "y\nnext\n" + longest + longest);
  std::string line;
  EXPECT_EQ(read_request_line(in, line), RequestLine::kWhole);
  EXPECT_EQ(line, longest);
  EXPECT_EQ(read_request_line(in, line), RequestLine::kTooLong);
  EXPECT_LE(line.size(), kMostRequestBytes);
  EXPECT_EQ(read_request_line(in, line), RequestLine::kWhole);
  EXPECT_EQ(line, "next");
  EXPECT_EQ(read_request_line(in, line), RequestLine::kTooLong) << "without a line feed";
  EXPECT_EQ(read_request_line(in, line), RequestLine::kEnd);
}

}  // namespace
}  // namespace headroom
