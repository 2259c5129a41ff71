#include "cli/live/server.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "cli/live/test_client.hpp"
#include "media/jpeg.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using test::Client;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kWidth = 64, kHeight = 32;

StreamFacts moving_stream() {
  return {.model = "tiny",
          .device = "cpu",
          .switches = "fuse",
          .width = kWidth,
          .height = kHeight,
          .fps = 25,
          .takes_prompt = true,
          .takes_steps = true,
          .takes_strength = true,
          .takes_pause = true};
}

/// Timeouts so long that no test depends on time.
LiveServerOptions patient_options() {
  return {.limits = {.request = hours(1), .stall = hours(1), .farewell = hours(1)},
          .preview_interval = milliseconds(0)};
}

/// A stream that runs by itself: frame i is gray, input i % 100, output 255 - i % 100; changes are applied at once.
class Producer {
 public:
  explicit Producer(LiveView& view) : view_(view), thread_([this](const std::stop_token& stop) { work(stop); }) {}
  std::int64_t shown() const { return view_.counters().shown; }

 private:
  void work(const std::stop_token& stop) {
    std::vector<std::uint8_t> input(kWidth * kHeight * 3), output(input.size());
    for (std::int64_t i = 0; !stop.stop_requested(); ++i) {
      if (const std::optional<StreamControls> wish = view_.take_wanted()) view_.answer(*wish);
      std::ranges::fill(input, static_cast<std::uint8_t>(i % 100));
      std::ranges::fill(output, static_cast<std::uint8_t>(255 - i % 100));
      view_.show({.frame = i, .latency_ms = 1}, input, output);
      std::this_thread::yield();
    }
    view_.end();
  }

  LiveView& view_;
  std::jthread thread_;
};

class LiveServerTest : public testing::Test {
 protected:
  void serve(const LiveServerOptions& options = patient_options()) {
    server_ = std::make_unique<LiveServer>(view_, LiveAddress{}, options);
    port_ = server_->address().port;
    host_ = authority_of(server_->address());
  }
  /// Sends these bytes and nothing more, and returns the whole answer.
  std::string ask(std::string_view bytes) {
    Client client(port_);
    client.send(bytes);
    client.end_sending();
    return client.read_all();
  }
  std::string get(std::string_view path) {
    return ask(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, host_));
  }
  std::string token() {
    const std::string page = get("/");
    constexpr std::string_view kBefore = "name=\"headroom-token\" content=\"";
    return page.substr(page.find(kBefore) + kBefore.size(), 32);
  }
  /// The header of a change as the page sends it, followed by `more`.
  std::string change_head(std::string_view more) {
    return fmt::format("POST /controls HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nX-Headroom-Token: {1}\r\n{2}",
                       host_, token_, more);
  }
  std::string change(std::string_view body) {
    return ask(fmt::format("{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", change_head(""),
                           body.size(), body));
  }
  /// Requests the output images, and reads the head of the answer.
  std::string begin_viewing(Client& client) {
    client.send(fmt::format("GET /output.mjpeg HTTP/1.1\r\nHost: {}\r\n\r\n", host_));
    return client.read_until("\r\n\r\n");
  }
  /// The next of those images, as a gray value.
  static int next_gray(Client& client) {
    const std::string head = client.read_until("\r\n\r\n");
    constexpr std::string_view kLength = "Content-Length: ";
    const std::string jpeg = client.read_bytes(std::stoul(head.substr(head.find(kLength) + kLength.size())));
    const Image image = parse_jpeg(jpeg, "preview").image;
    EXPECT_EQ(image.width, kWidth);
    EXPECT_EQ(image.height, kHeight);
    return image.pixels[0];
  }

  LiveView view_{moving_stream(), {.prompt = "a fox"}};
  std::unique_ptr<LiveServer> server_;
  std::uint16_t port_ = 0;
  std::string host_, token_;
};

TEST_F(LiveServerTest, ServesItsPageAndNothingElse) {
  serve();
  const std::string page = get("/");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  for (const char* field :
       {"Content-Security-Policy: default-src 'none'; script-src 'self';", "frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff", "Cross-Origin-Resource-Policy: same-origin", "Connection: close"})
    EXPECT_THAT(page, HasSubstr(field));
  EXPECT_THAT(page, Not(HasSubstr("{{token}}")));
  EXPECT_THAT(token(), testing::MatchesRegex("[0-9a-f]{32}"));
  for (const char* path : {"/live.js", "/live.css", "/icon.svg"}) EXPECT_THAT(get(path), StartsWith("HTTP/1.1 200"));
  const std::string status = get("/status");
  EXPECT_EQ(json::parse(status.substr(status.find("\r\n\r\n"))).at("model"), "tiny");
  for (const char* path : {"/index.html", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//", "/status/", "*",
                           "http://127.0.0.1/", "/live.js%00"})
    EXPECT_THAT(get(path), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("There is nothing here"))) << path;
  LiveServer other(view_, LiveAddress{}, patient_options());
  const std::string token_before = token();
  port_ = other.address().port, host_ = authority_of(other.address());
  EXPECT_NE(token(), token_before);
}

TEST_F(LiveServerTest, AnswersOnlyToItsOwnName) {
  serve();
  const auto get_with = [&](std::string_view fields) { return ask(fmt::format("GET / HTTP/1.1\r\n{}\r\n", fields)); };
  EXPECT_THAT(get_with(fmt::format("Host: localhost:{}\r\n", port_)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get_with(""), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(get_with(fmt::format("Host: rebound.example.org:{}\r\n", port_)),
              AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("http://" + host_), Not(HasSubstr("headroom-token"))));
  EXPECT_THAT(get_with(fmt::format("Host: {}\r\nHost: example.org\r\n", host_)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(get_with(fmt::format("Host: {}\r\nOrigin: http://example.org\r\n", host_)), StartsWith("HTTP/1.1 403"));
  // A link from another site may lead here, but other sites must not display this page.
  const std::string foreign = fmt::format("Host: {}\r\nSec-Fetch-Site: cross-site\r\n", host_);
  EXPECT_THAT(get_with(foreign + "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get_with(foreign + "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(
      ask("GET /output.mjpeg HTTP/1.1\r\n" + foreign + "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n\r\n"),
      StartsWith("HTTP/1.1 403"));
}

TEST_F(LiveServerTest, TakesAChangeFromItsPage) {
  serve();
  token_ = token();
  const std::string answer = change(R"({"prompt": "an owl", "steps": 3})");
  ASSERT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(json::parse(answer.substr(answer.find("\r\n\r\n"))).at("goal").at("prompt"), "an owl");
  EXPECT_THAT(change(R"({"strength": 0.25})"), StartsWith("HTTP/1.1 200"));
  const std::optional<StreamControls> wanted = view_.take_wanted();
  ASSERT_TRUE(wanted);
  EXPECT_EQ(*wanted, (StreamControls{.prompt = "an owl", .steps = 3, .strength = 0.25})) << "no wish undoes another";
}

TEST_F(LiveServerTest, RefusesAChangeFromElsewhereOrOfAnotherKind) {
  serve();
  token_ = token();
  const std::string body = R"({"prompt": "mine"})";
  const std::string json_body =
      fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  const auto post = [&](std::string_view head, std::string_view rest) {
    return ask(fmt::format("POST /controls HTTP/1.1\r\nHost: {}\r\n{}{}", host_, head, rest));
  };
  const std::string origin = fmt::format("Origin: http://{}\r\n", host_),
                    secret = fmt::format("X-Headroom-Token: {}\r\n", token_);
  EXPECT_THAT(post(secret, json_body), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post(secret + "Origin: null\r\n", json_body), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post(secret + "Origin: http://example.org\r\n", json_body), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post(secret + fmt::format("Origin: https://{}\r\n", host_), json_body), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post(secret + origin + "Sec-Fetch-Site: cross-site\r\n", json_body), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post(origin, json_body), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("load it again")));
  EXPECT_THAT(post(origin + "X-Headroom-Token: 0\r\n", json_body), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post(origin + secret + secret, json_body), StartsWith("HTTP/1.1 400"));

  const auto refused = [&](std::string_view rest) { return ask(change_head(rest)); };
  EXPECT_THAT(refused(fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body)), StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(refused(fmt::format("Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{}", body.size(), body)),
              StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(refused("Content-Type: multipart/form-data; boundary=a\r\nContent-Length: 9\r\n\r\n--a--\r\n\r\n"),
              StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(refused("Content-Encoding: gzip\r\n" + json_body), StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(refused("Content-Type: application/json\r\n\r\n"), StartsWith("HTTP/1.1 411"));
  EXPECT_THAT(refused("Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 411"));
  for (const char* length : {"16385", "99999999999999999999999"})
    EXPECT_THAT(refused(fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", length)),
                StartsWith("HTTP/1.1 413"))
        << length;
  for (const char* length : {"-1", "0x10", "two"})
    EXPECT_THAT(refused(fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{{}}", length)),
                StartsWith("HTTP/1.1 400"))
        << length;
  for (const char* wrong : {"", "not JSON", "[]", R"({"prompt": 1})", R"({"steps": 0})", R"({"seed": 1})"})
    EXPECT_THAT(change(wrong), StartsWith("HTTP/1.1 400")) << wrong;
  EXPECT_THAT(change(R"({"steps": 101})"), HasSubstr("steps is 101, expected 1 to 100\n"));
  EXPECT_THAT(get("/controls"), StartsWith("HTTP/1.1 405"));
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE", "PRI"})
    EXPECT_THAT(ask(fmt::format("{} /controls HTTP/1.1\r\nHost: {}\r\n\r\n", method, host_)),
                StartsWith("HTTP/1.1 405"))
        << method;
  EXPECT_EQ(view_.take_wanted(), std::nullopt);
}

TEST_F(LiveServerTest, OutlivesWhateverIsSent) {
  serve();
  const std::string host = fmt::format("Host: {}\r\n", host_);
  std::string many_fields, many_ranges = "0-0";
  for (int i = 0; i < 5000; ++i) many_fields += fmt::format("a{}: b\r\n", i);
  for (int i = 0; i < 2000; ++i) many_ranges += ",0-0";
  for (const std::string& bytes : std::vector<std::string>{
           std::string("\0\0\0\0", 4),
           "\r\n\r\n",
           "GET\r\n\r\n",
           "GET / HTTP/9.9\r\n\r\n",
           "GET / HTTP/1.1\n\n",
           std::string(40'000, 'a'),
           "GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n",
           "GET /?" + std::string(4000, '&') + " HTTP/1.1\r\n" + host + "\r\n",
           "GET /?a=b?c HTTP/1.1\r\n" + host + "\r\n",
           "GET /%zz%u0000%f0%28%8c HTTP/1.1\r\n" + host + "\r\n",
           "GET / HTTP/1.1\r\n" + host + "a: " + std::string(20'000, 'a') + "\r\n\r\n",
           "GET / HTTP/1.1\r\n" + many_fields + "\r\n",
           "GET / HTTP/1.1\r\n" + host + "Range: bytes=" + many_ranges + "\r\n\r\n",
           "GET / HTTP/1.1\r\n" + host + "Range: bytes=0-99999999999999999999999\r\n\r\n",
           "GET / HTTP/1.1\r\n" + host + "Range: bytes=" + std::string(8000, '1') + "-\r\n\r\n",
           "GET / HTTP/1.1\r\n" + host + "Range: bytes=5-1,-\r\n\r\n",
           "POST /controls HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: %0d%0aInjected: yes\r\n\r\n",
       }) {
    Client client(port_);
    client.send(bytes);
    client.end_sending();
    EXPECT_THAT(client.read_all(), Not(HasSubstr("Injected"))) << bytes.substr(0, 100);
    EXPECT_THAT(get("/status"), StartsWith("HTTP/1.1 200")) << "after " << bytes.substr(0, 100);
  }
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n" + many_fields + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n" + host + "Range: bytes=1-2\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), testing::EndsWith("</html>\n")));
}

TEST_F(LiveServerTest, IsHeardByThoseWhoSentTooMuch) {
  serve();
  token_ = token();
  for (int i = 0; i < 20; ++i) {
    Client client(port_);
    client.send(change_head("Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n") +
                std::string(900'000, ' '));
    EXPECT_THAT(client.read_all(), AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("larger than 16384 bytes")));
  }
}

TEST_F(LiveServerTest, WaitsForNoRequestForEver) {
  LiveServerOptions options = patient_options();
  options.limits.request = milliseconds(20);
  serve(options);
  for (const std::string_view part : {"G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: b"}) {
    Client client(port_);
    client.send(part);
    EXPECT_THAT(client.read_all(), AllOf(StartsWith("HTTP/1.1 408"), HasSubstr("took too long"))) << part;
  }
  Client silent(port_);
  EXPECT_THAT(silent.read_all(), StartsWith("HTTP/1.1 408"));
}

TEST_F(LiveServerTest, TakesNothingFromHalfABody) {
  serve();
  token_ = token();
  Client client(port_);
  client.send(change_head("Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"steps\""));
  client.end_sending();
  (void)client.read_all();
  EXPECT_EQ(view_.take_wanted(), std::nullopt);
}

TEST_F(LiveServerTest, AnswersOthersWhileSomeNeverFinishTheirRequests) {
  LiveServerOptions options = patient_options();
  options.most_viewers = 1;
  options.most_others = 2;
  options.most_waiting = 0;
  serve(options);
  std::optional<Client> first(port_);
  Client second(port_), third(port_);
  first->send("GET / HT");
  second.send("GET / HTTP/1.1\r\nHost: ");
  // Connections are accepted in order, so all three are registered by now.
  EXPECT_THAT(get("/status"), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("try again")));
  first.reset();
  while (!get("/status").starts_with("HTTP/1.1 200")) std::this_thread::yield();
}

TEST_F(LiveServerTest, ShowsFramesAsTheyCome) {
  serve();
  const Producer producer(view_);
  Client client(port_);
  EXPECT_THAT(begin_viewing(client), HasSubstr("Content-Type: multipart/x-mixed-replace; boundary=frame\r\n"));
  int changes = 0;
  for (int before = next_gray(client); changes < 3;) {
    const int now = next_gray(client);
    EXPECT_GE(now, 255 - 99 - 2) << "of the output";
    if (now != before) ++changes;
    before = now;
  }
}

TEST_F(LiveServerTest, HasPlaceForSoManyViewers) {
  LiveServerOptions options = patient_options();
  options.most_viewers = 2;
  serve(options);
  const Producer producer(view_);
  std::optional<Client> first(port_), second(port_);
  EXPECT_THAT(begin_viewing(*first), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(begin_viewing(*second), StartsWith("HTTP/1.1 200"));
  Client refused(port_);
  ASSERT_THAT(begin_viewing(refused), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(refused.read_all(), HasSubstr("There are 2 viewers"));
  EXPECT_THAT(get("/status"), StartsWith("HTTP/1.1 200")) << "which takes no viewer's place";
  first.reset();
  for (bool has_place = false; !has_place; std::this_thread::yield()) {
    Client third(port_);
    has_place = begin_viewing(third).starts_with("HTTP/1.1 200");
  }
}

TEST_F(LiveServerTest, LetsNoViewerHoldTheStreamUp) {
  serve();
  std::optional<Producer> producer(view_);
  Client asleep(port_, 2048);
  EXPECT_THAT(begin_viewing(asleep), StartsWith("HTTP/1.1 200"));
  // A second client sees more frames than the buffers between the server and the first client, who reads none, can
  // hold.
  Client awake(port_);
  (void)begin_viewing(awake);
  for (int i = 0; i < 2000; ++i) (void)next_gray(awake);
  const std::int64_t shown = producer->shown();
  while (producer->shown() < shown + 1000) std::this_thread::yield();
  producer.reset();
  server_.reset();  // does not wait for it either
}

TEST_F(LiveServerTest, TakesAThousandPromptsFromTwoPages) {
  serve();
  token_ = token();
  const Producer producer(view_);
  const auto send_prompts = [&](std::string_view name) {
    for (int i = 0; i < 500; ++i)
      ASSERT_THAT(change(fmt::format(R"({{"prompt": "{} {}"}})", name, i)), StartsWith("HTTP/1.1 200"));
  };
  std::jthread other([&] { send_prompts("owl"); });
  send_prompts("fox");
  other.join();
  EXPECT_THAT(change(R"({"prompt": "the last"})"), StartsWith("HTTP/1.1 200"));
  while (view_.controls().prompt != "the last") std::this_thread::yield();
  EXPECT_EQ(view_.obstacle(), "");
}

TEST_F(LiveServerTest, EndsWithTheStream) {
  serve();
  std::optional<Producer> producer(view_);
  Client client(port_);
  (void)begin_viewing(client);
  (void)next_gray(client);
  producer.reset();
  EXPECT_THAT(client.read_all(), testing::EndsWith("--frame\r\n"));
  const std::string status = get("/status");
  EXPECT_EQ(json::parse(status.substr(status.find("\r\n\r\n"))).at("ended"), true);
}

TEST_F(LiveServerTest, SaysThatAPortIsTaken) {
  serve();
  EXPECT_EQ(
      error_of([&] { LiveServer(view_, server_->address()); }),
      fmt::format("cannot serve the page on {}: another program has port {}; choose another, or 0 for one that is free",
                  host_, port_));
  EXPECT_THAT(error_of([&] {
                LiveServer(view_, {"203.0.113.7", 0});
              }),
              HasSubstr("this machine has no address 203.0.113.7"));
}

TEST_F(LiveServerTest, WarnsOfAPageThatOthersReach) {
  const TempFolder folder;
  const auto announced = [&](const LiveAddress& address) {
    const LiveServer server(view_, address, patient_options());
    const std::filesystem::path path = folder / "log";
    std::FILE* file = std::fopen(path.c_str(), "w");
    announce(Log(false, ::fileno(file)), server);
    std::fclose(file);
    return read_file(path);
  };
  EXPECT_THAT(announced({}), AllOf(StartsWith("the stream is on http://127.0.0.1:"), Not(HasSubstr("warning"))));
  EXPECT_THAT(announced({"0.0.0.0", 0}), HasSubstr("warning: whoever reaches port "));
}

}  // namespace
}  // namespace headroom
