#include "dashboard/browser.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace headroom::test {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr const char* kProgram = "/usr/bin/chromium";

constexpr const char* kPoorContrast = R"((() => {
  const parse = c => (c.match(/[0-9.]+/g) || []).map(Number);
  const light = c => { const f = c.slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
                       return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || ['SCRIPT', 'STYLE'].includes(e.tagName) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), color = parse(e.tagName === 'text' ? style.fill : style.color);
    if (color[3] === 0) continue;
    const a = light(color), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([ratio, node.data]);
  }
  return poor; })())";

std::string decode_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos) break;
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU);
  }
  return out;
}

}  // namespace

Browser::Browser() {
  if (access(kProgram, X_OK) != 0)
    throw std::runtime_error(std::string(kProgram) + " is missing: scripts/bootstrap.sh test installs it");
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  to_browser_ = in[1];
  from_browser_ = out[0];
  const std::string profile_option = "--user-data-dir=" + profile_.path().string();
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("no process");
  if (process_ == 0) {
    setpgid(0, 0);
    const int read_end = fcntl(in[0], F_DUPFD, 10),
              write_end = fcntl(out[1], F_DUPFD, 10);  // out of the way of 3 and 4
    dup2(read_end, 3);
    dup2(write_end, 4);
    const int nowhere = ::open("/dev/null", O_RDWR);
    dup2(nowhere, 0);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    execl(kProgram, kProgram, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
          "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
          "--disable-sync", "--disable-dev-shm-usage", "--force-device-scale-factor=1", profile_option.c_str(),
          "about:blank", nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  const json target = call("Target.createTarget", {{"url", "about:blank"}});
  session_ = call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}}).at("sessionId");
  for (const char* domain : {"Page", "Runtime", "Log", "Network", "Performance"}) call(std::string(domain) + ".enable");
  set_network(false);
}

Browser::~Browser() {
  close(to_browser_);
  close(from_browser_);
  kill(-process_, SIGKILL);  // its own group, made above
  waitpid(process_, nullptr, 0);
}

json Browser::read_message() {
  const Clock::time_point deadline = Clock::now() + kPatience;
  for (;;) {
    if (const std::size_t end = unread_.find('\0'); end != std::string::npos) {
      const std::string message = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return json::parse(message);
    }
    pollfd waiting{.fd = from_browser_, .events = POLLIN, .revents = 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) <= 0)
      throw std::runtime_error("the browser does not answer");
    char buffer[65536];
    const ssize_t n = read(from_browser_, buffer, sizeof buffer);
    if (n <= 0) throw std::runtime_error("the browser has ended");
    unread_.append(buffer, static_cast<std::size_t>(n));
  }
}

json Browser::call(const std::string& method, json parameters) {
  json message = {{"id", ++last_id_}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = write(to_browser_, text.data() + written, text.size() - written);
    if (n <= 0) throw std::runtime_error("the browser takes no message");
    written += static_cast<std::size_t>(n);
  }
  for (;;) {
    const json answer = read_message();
    if (!answer.contains("id")) {
      take_event(answer);
      continue;
    }
    if (answer["id"] != last_id_) continue;
    if (answer.contains("error")) throw std::runtime_error(method + ": " + answer["error"].dump());
    return answer.value("result", json::object());
  }
}

void Browser::take_event(const json& event) {
  const std::string method = event.value("method", "");
  const json parameters = event.value("params", json::object());
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.exceptionThrown") complaints_.push_back(parameters.dump());
  if (method == "Network.requestWillBeSent") requests_.push_back(parameters["request"]["url"]);
  const bool is_error =
      method == "Runtime.consoleAPICalled" && (parameters["type"] == "error" || parameters["type"] == "warning");
  const bool is_log =
      method == "Log.entryAdded" && parameters["entry"]["level"] != "info" && parameters["entry"]["level"] != "verbose";
  if (is_error || is_log) complaints_.push_back(parameters.dump());
}

void Browser::set_screen(int width, int height, std::string_view scheme) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  call("Emulation.setEmulatedMedia",
       {{"features", json::array({{{"name", "prefers-color-scheme"}, {"value", scheme}}})}});
}

void Browser::set_network(bool is_there) {
  call("Network.emulateNetworkConditions",
       {{"offline", !is_there}, {"latency", 0}, {"downloadThroughput", -1}, {"uploadThroughput", -1}});
}

void Browser::open(const std::filesystem::path& path) {
  navigate("file://" + std::filesystem::absolute(path).string());
}

void Browser::open_address(const std::string& address) {
  set_network(true);
  navigate(address);
}

void Browser::navigate(const std::string& address) {
  loaded_ = false;
  complaints_.clear();
  requests_.clear();
  call("Page.navigate", {{"url", address}});
  while (!loaded_) {
    const json event = read_message();
    if (!event.contains("id")) take_event(event);
  }
}

json Browser::evaluate(const std::string& expression) {
  const json answer =
      call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (answer.contains("exceptionDetails"))
    throw std::runtime_error(expression + ": " + answer["exceptionDetails"].dump());
  return answer["result"].value("value", json());
}

void Browser::wait_for(const std::string& expression) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (evaluate("!!(" + expression + ")") != true) {
    if (Clock::now() > deadline) throw std::runtime_error("never true: " + expression);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Browser::move_mouse(double x, double y) {
  call("Input.dispatchMouseEvent", {{"type", "mouseMoved"}, {"x", x}, {"y", y}});
}

void Browser::type(std::string_view text) { call("Input.insertText", {{"text", text}}); }

void Browser::press(std::string_view key) {
  for (const char* type : {"rawKeyDown", "keyUp"})
    call("Input.dispatchKeyEvent",
         {{"type", type}, {"key", key}, {"code", key}, {"windowsVirtualKeyCode", key == "Tab" ? 9 : 13}});
}

double Browser::main_thread_seconds() {
  const json answer = call("Performance.getMetrics");
  for (const json& metric : answer["metrics"])
    if (metric["name"] == "ThreadTime") return metric["value"];
  throw std::runtime_error("the browser does not tell ThreadTime");
}

void Browser::take_screenshot(const std::filesystem::path& path) {
  const json answer = call("Page.captureScreenshot", {{"format", "png"}});
  std::ofstream(path, std::ios::binary) << decode_base64(answer["data"].get<std::string>());
}

json Browser::poor_contrasts() { return evaluate(kPoorContrast); }

std::string Browser::print() { return call("Page.printToPDF", {{"printBackground", true}})["data"]; }

}  // namespace headroom::test
