// The page of a live stream as those who watch it meet it: in real browsers, with a stream that goes on by itself.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cli/live/server.hpp"
#include "dashboard/browser.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using test::Browser;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::int64_t kSide = 64;

StreamFacts hostile_stream() {
  return {.model = "a <b>bold</b> model",
          .device = "cpu",
          .switches = "lossless,\"><script>document.title = 'mine'</script>",
          .width = kSide,
          .height = kSide,
          .fps = 25,
          .takes_prompt = true,
          .takes_steps = true,
          .takes_strength = true,
          .takes_similarity = true,
          .takes_seed = true,
          .takes_pause = true};
}

/// A stream of a disc that goes round, and of its negative; wishes come true at once, but for the prompt "impossible".
class Stream {
 public:
  explicit Stream(LiveView& view) : view_(view), thread_([this](const std::stop_token& stop) { work(stop); }) {}
  /// From now on no frame comes, but wishes are taken.
  void stall() { is_stalled_ = true; }

 private:
  void take_wishes() {
    const std::optional<StreamControls> wish = view_.take_wanted();
    if (!wish) return;
    if (wish->prompt == "impossible")
      view_.answer(view_.controls(), "the prompt cannot be read");
    else
      view_.answer(*wish);
  }
  void work(const std::stop_token& stop) {
    std::vector<std::uint8_t> input(kSide * kSide * 3), output(input.size());
    for (std::int64_t i = 0; !stop.stop_requested(); ++i) {
      take_wishes();
      if (!is_stalled_ && !view_.controls().paused) {
        draw(i, input);
        std::ranges::transform(input, output.begin(),
                               [](std::uint8_t v) { return static_cast<std::uint8_t>(255 - v); });
        const double device_ms = 14 + 3 * std::sin(static_cast<double>(i) / 9) + (i % 61 == 0 ? 14 : 0);
        view_.show({.frame = i,
                    .latency_ms = device_ms + 9,
                    .decode_ms = 2,
                    .queue_ms = 4,
                    .device_ms = device_ms,
                    .encode_ms = 3},
                   input, output);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    view_.end();
  }
  static void draw(std::int64_t frame, std::vector<std::uint8_t>& rgb) {
    const double angle = static_cast<double>(frame) / 20, x0 = 32 + 18 * std::cos(angle),
                 y0 = 32 + 18 * std::sin(angle);
    for (std::int64_t y = 0; y < kSide; ++y)
      for (std::int64_t x = 0; x < kSide; ++x) {
        const bool is_inside = std::hypot(static_cast<double>(x) - x0, static_cast<double>(y) - y0) < 10;
        std::uint8_t* pixel = rgb.data() + (y * kSide + x) * 3;
        pixel[0] = is_inside ? 240 : static_cast<std::uint8_t>(20 + x);
        pixel[1] = is_inside ? 120 : static_cast<std::uint8_t>(60 + y);
        pixel[2] = is_inside ? 40 : 110;
      }
  }

  LiveView& view_;
  std::atomic<bool> is_stalled_ = false;
  std::jthread thread_;
};

class LivePageTest : public testing::Test {
 protected:
  void open(Browser& browser, int width = 1200, std::string_view scheme = "light") {
    browser.set_screen(width, 900, scheme);
    browser.open_address(address_);
    browser.wait_for("document.body.dataset.state === 'running'");
  }
  /// The sum of the pixels that a picture of the page shows; 0 before there are any.
  static std::string sum_of(std::string_view picture) {
    return fmt::format(
        "(() => {{ const i = document.querySelector('#{} img'); if (!i.naturalWidth) return 0;"
        "const c = document.createElement('canvas'); c.width = i.naturalWidth; c.height = i.naturalHeight;"
        "const g = c.getContext('2d'); g.drawImage(i, 0, 0);"
        "return g.getImageData(0, 0, c.width, c.height).data.reduce((a, b, k) => k % 4 < 3 ? a + b * (k % 251) : a, "
        "0); }})()",
        picture);
  }
  static std::string text_of(Browser& browser, std::string_view id) {
    return browser.evaluate(fmt::format("document.getElementById('{}').textContent", id));
  }
  static std::string value_of(std::string_view id) { return fmt::format("document.getElementById('{}').value", id); }

  LiveView view_{hostile_stream(), {.prompt = "a fox", .steps = 2}};
  std::optional<Stream> stream_{view_};
  std::unique_ptr<LiveServer> server_ = std::make_unique<LiveServer>(view_, LiveAddress{});
  const std::string address_ = "http://" + authority_of(server_->address()) + "/";
  Browser browser_;
};

TEST_F(LivePageTest, ShowsPicturesThatMoveAndNumbers) {
  open(browser_);
  for (const char* const side : {"input", "output"}) {
    browser_.wait_for(sum_of(side) + " > 0");
    browser_.evaluate("window.before = " + sum_of(side));
    browser_.wait_for(sum_of(side) + " !== window.before");
    EXPECT_EQ(browser_.evaluate(fmt::format("document.querySelector('#{} img').naturalWidth", side)), kSide);
  }
  EXPECT_THAT(text_of(browser_, "p50"), testing::ContainsRegex("^[0-9.]+ .*s$"));
  EXPECT_GT(std::stod(text_of(browser_, "fps")), 0);
  EXPECT_THAT(text_of(browser_, "curve-note"), HasSubstr("a frame of the input comes every 40.0 ms"));
  EXPECT_EQ(text_of(browser_, "part-queue"), "4.00 ms");
  EXPECT_GT(browser_.evaluate("document.getElementById('curve-line').points.numberOfItems"), 1);
  EXPECT_THAT(browser_.requests(), Each(StartsWith(address_)));
  EXPECT_THAT(browser_.complaints(), IsEmpty());
}

TEST_F(LivePageTest, WhatOneBrowserWishesAnotherReads) {
  const std::string prompt = "an owl <img src=x onerror=\"document.title='mine'\"> & more";
  Browser other;
  open(browser_);
  open(other);
  browser_.wait_for(value_of("prompt") + " === 'a fox'");
  browser_.evaluate("document.getElementById('prompt').select()");
  browser_.type(prompt);
  browser_.press("Enter");
  browser_.evaluate(
      "{ const s = document.getElementById('strength'); s.value = 0.25; s.dispatchEvent(new Event('input')); }");
  for (Browser* const each : {&browser_, &other}) {
    each->wait_for(fmt::format("{} === {}", value_of("prompt"), json(prompt).dump()));
    each->wait_for(value_of("strength") + " === '0.25'");
    EXPECT_EQ(text_of(*each, "model"), "a <b>bold</b> model");
    EXPECT_EQ(each->evaluate("document.title"), "a <b>bold</b> model – headroom stream");
    EXPECT_EQ(each->evaluate("document.querySelectorAll('header b, header script').length"), 0);
    EXPECT_THAT(each->complaints(), IsEmpty());
  }
  EXPECT_EQ(view_.controls(), (StreamControls{.prompt = prompt, .steps = 2, .strength = 0.25}));
}

TEST_F(LivePageTest, RunsNoScriptButItsOwn) {
  open(browser_);
  // As if a name had stood in the page unescaped.
  browser_.evaluate(
      "(() => { const box = document.createElement('div'); document.body.appendChild(box);"
      "box.innerHTML = \"<img src='/none' onerror='window.hacked = 1'><svg onload='window.hacked = 2'></svg>"
      "<details open ontoggle='window.hacked = 3'>x</details>\";"
      "const script = document.createElement('script'); script.textContent = 'window.hacked = 4'; "
      "box.appendChild(script);"
      "})()");
  browser_.evaluate("new Promise(done => setTimeout(done, 300))");
  EXPECT_EQ(browser_.evaluate("window.hacked === undefined"), true);
  EXPECT_THAT(browser_.complaints(), testing::Contains(HasSubstr("Content Security Policy")));
}

TEST_F(LivePageTest, SaysWhatCouldNotBeDone) {
  open(browser_);
  browser_.wait_for(value_of("prompt") + " === 'a fox'");
  browser_.evaluate("document.getElementById('prompt').select()");
  browser_.type("impossible");
  browser_.evaluate("document.getElementById('apply').click()");
  browser_.wait_for("document.getElementById('message').textContent === 'the prompt cannot be read'");
  // A page of an earlier run, whose token nobody takes any more.
  browser_.evaluate(
      "fetch('/controls', {method: 'POST', body: '{\"steps\": 5}', headers: {'Content-Type': 'application/json', "
      "'X-Headroom-Token': 'old'}}).then(a => a.text()).then(t => { window.refusal = t; })");
  EXPECT_THAT(browser_.evaluate("window.refusal").get<std::string>(), HasSubstr("load it again"));
  EXPECT_EQ(view_.controls().steps, 2);
}

TEST_F(LivePageTest, TellsWhetherTheStreamGoesOn) {
  open(browser_);
  browser_.evaluate("document.getElementById('pause').click()");
  browser_.wait_for("document.body.dataset.state === 'paused'");
  EXPECT_TRUE(view_.controls().paused);
  browser_.wait_for("document.getElementById('pause').textContent === 'Go on'");
  browser_.evaluate("document.getElementById('pause').click()");
  browser_.wait_for("document.body.dataset.state === 'running'");
  stream_->stall();
  browser_.wait_for("document.getElementById('state-text').textContent.startsWith('no new frame for')");
  stream_.reset();
  browser_.wait_for("document.body.dataset.state === 'ended'");
  EXPECT_EQ(browser_.evaluate("document.getElementById('prompt').disabled"), true);
}

TEST_F(LivePageTest, SaysThatTheProgramHasGone) {
  open(browser_);
  server_.reset();
  browser_.wait_for("document.body.dataset.state === 'gone'");
  EXPECT_THAT(text_of(browser_, "state-text"), HasSubstr("does not answer"));
}

TEST_F(LivePageTest, IsReadableInLightAndDarkOnPhonesAndWideScreens) {
  for (const char* const scheme : {"light", "dark"})
    for (const int width : {360, 1200}) {
      open(browser_, width, scheme);
      browser_.wait_for(sum_of("output") + " > 0");
      EXPECT_LE(browser_.evaluate("document.documentElement.scrollWidth"), width);
      EXPECT_EQ(browser_.poor_contrasts(), json::array()) << scheme;
      EXPECT_EQ(browser_.evaluate("['input', 'output'].map(s => document.getElementById(s).getBoundingClientRect())"
                                  ".reduce((a, b) => a.top === b.top && a.right <= b.left && b.right <= innerWidth)"),
                true)
          << "they lie side by side";
      EXPECT_EQ(browser_.evaluate("Array.from(document.querySelectorAll('input, textarea, img')).filter(e => "
                                  "!(e.alt || e.labels && e.labels.length)).length"),
                0)
          << "what a reader of screens cannot name";
      if (const char* const keep = std::getenv("HEADROOM_KEEP_SCREENSHOTS"))
        browser_.take_screenshot(std::filesystem::path(keep) / fmt::format("live-{}-{}.png", scheme, width));
    }
}

TEST_F(LivePageTest, IsReachedByKeysAlone) {
  open(browser_);
  browser_.wait_for("!document.getElementById('pause').closest('[hidden]')");
  std::vector<std::string> reached;
  for (int i = 0; i < 7; ++i) {
    browser_.press("Tab");
    reached.push_back(browser_.evaluate("document.activeElement.id"));
  }
  EXPECT_THAT(reached, testing::ElementsAre("prompt", "strength", "steps", "similarity", "seed", "apply", "pause"));
}

}  // namespace
}  // namespace headroom
