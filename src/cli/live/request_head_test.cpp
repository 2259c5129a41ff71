#include "cli/live/request_head.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(RequestHead, HasMethodPathAndFields) {
  const auto head = parse_request_head(
      "POST /controls?now=1&a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Headroom-Token:\t a b \t\r\naccept:\r\nHOST:x\r\n");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->method, "POST");
  EXPECT_EQ(head->path, "/controls");
  EXPECT_THAT(head->header_fields, ElementsAre(Pair("accept", ""), Pair("host", "127.0.0.1:80"), Pair("host", "x"),
                                               Pair("x-headroom-token", "a b")));
  EXPECT_TRUE(parse_request_head("GET / HTTP/1.0\r\n"));
  EXPECT_EQ(parse_request_head("GET /%2e%2e/a HTTP/1.1\r\n")->path, "/%2e%2e/a") << "as it was sent";
  EXPECT_EQ(parse_request_head("GET / HTTP/1.1\r\na: \xC3\xA9\r\n")->header_fields.begin()->second, "\xC3\xA9");
}

TEST(RequestHead, IsOneToTheLetter) {
  using namespace std::string_view_literals;
  for (const std::string_view head : {""sv,
                                      "\r\n"sv,
                                      "GET"sv,
                                      "GET\r\n"sv,
                                      "GET /\r\n"sv,
                                      "GET / HTTP/1.1"sv,
                                      "GET / HTTP/1.1\n"sv,
                                      "GET / HTTP/2\r\n"sv,
                                      "GET / HTTP/9.9\r\n"sv,
                                      "GET / http/1.1\r\n"sv,
                                      "GET  HTTP/1.1\r\n"sv,
                                      "GET  / HTTP/1.1\r\n"sv,
                                      "GET / HTTP/1.1 \r\n"sv,
                                      " GET / HTTP/1.1\r\n"sv,
                                      "G(T / HTTP/1.1\r\n"sv,
                                      "GET /a b HTTP/1.1\r\n"sv,
                                      "GET /\0 HTTP/1.1\r\n"sv,
                                      "GET /\xC3\xA9 HTTP/1.1\r\n"sv,
                                      "\0\0\0\0\r\n"sv,
                                      "GET / HTTP/1.1\r\nno colon\r\n"sv,
                                      "GET / HTTP/1.1\r\n: no name\r\n"sv,
                                      "GET / HTTP/1.1\r\na : b\r\n"sv,
                                      "GET / HTTP/1.1\r\na: b\r\n folded\r\n"sv,
                                      "GET / HTTP/1.1\r\na: \0\r\n"sv,
                                      "GET / HTTP/1.1\r\na: b\rc\r\n"sv,
                                      "GET / HTTP/1.1\r\na: b\nc: d\r\n"sv,
                                      "GET / HTTP/1.1\r\na: b"sv,
                                      "GET / HTTP/1.1\r\na: \x7F\r\n"sv,
                                      "GET / HTTP/1.1\r\n\r\na: b\r\n"sv})
    EXPECT_FALSE(parse_request_head(head)) << head;
}

}  // namespace
}  // namespace headroom
