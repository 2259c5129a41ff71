#include "cli/live/address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

TEST(LiveAddress, IsThisMachineAloneUnlessAnAddressIsGiven) {
  EXPECT_EQ(parse_live_address(":8080"), (LiveAddress{"127.0.0.1", 8080}));
  EXPECT_EQ(parse_live_address("localhost:0"), (LiveAddress{"127.0.0.1", 0}));
  EXPECT_EQ(parse_live_address("192.168.1.5:65535"), (LiveAddress{"192.168.1.5", 65535}));
  EXPECT_EQ(parse_live_address("[0:0::1]:80"), (LiveAddress{"::1", 80}));
  EXPECT_EQ(authority_of({"::1", 80}), "[::1]:80");
  EXPECT_EQ(authority_of({"0.0.0.0", 80}), "0.0.0.0:80");
  EXPECT_TRUE(is_loopback({"127.0.0.1", 1}) && is_loopback({"::1", 1}));
  EXPECT_FALSE(is_loopback({"0.0.0.0", 1}) || is_loopback({"192.168.1.5", 1}));
  EXPECT_TRUE(is_wildcard({"0.0.0.0", 1}) && is_wildcard({"::", 1}));
}

TEST(LiveAddress, SaysWhatIsNoAddress) {
  const auto refusal = [](std::string_view text) { return error_of([&] { (void)parse_live_address(text); }); };
  for (const std::string_view text : {"", "8080", ":", ":65536", ":-1", ":80a", ":+80", "::1", "[::1]", "127.0.0.1"})
    EXPECT_THAT(refusal(text), HasSubstr("expected :PORT or ADDRESS:PORT")) << text;
  for (const std::string_view text : {"example.org:80", "256.1.1.1:80", "[127.0.0.1]:80", "[]:80", "1.2.3:80"})
    EXPECT_THAT(refusal(text), HasSubstr("is no address")) << text;
}

TEST(LiveAddress, KnowsItselfByAddressOrAsLocalhost) {
  const LiveAddress home{"127.0.0.1", 8080};
  for (const std::string_view host : {"127.0.0.1:8080", "localhost:8080", "LocalHost", "127.0.0.1", "localhost:9000"})
    EXPECT_TRUE(is_own_host(host, home)) << host;
  for (const std::string_view host :
       {"", "example.org", "example.org:8080", "localhost.example.org", "127.0.0.1.example.org:8080", "127.0.0.2:8080",
        "192.168.1.5:8080", "[::1]:8080", "localhost:", "localhost:x", "localhost:8080:8080", "localhost ", "0.0.0.0"})
    EXPECT_FALSE(is_own_host(host, home)) << host;
  const LiveAddress everywhere{"0.0.0.0", 8080};
  EXPECT_TRUE(is_own_host("192.168.1.5:8080", everywhere) && is_own_host("[fe80::1]:8080", everywhere));
  EXPECT_FALSE(is_own_host("example.org:8080", everywhere)) << "whoever owns the name may point it here";
}

}  // namespace
}  // namespace headroom
