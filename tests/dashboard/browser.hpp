#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/test_util.hpp"

namespace headroom::test {

/// The script behind Browser::poor_contrasts(), an expression.
extern const char* const kPoorContrasts;

/// A headless Chromium with one page, spoken to over a pipe (Chrome DevTools Protocol). It has no network but where an
/// address is opened. Whatever it does not answer within half a minute throws std::runtime_error.
class Browser {
 public:
  Browser();
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  /// The size of what is seen, and the reader's colour scheme ("light" or "dark"), from now on.
  void set_screen(int width, int height, std::string_view scheme);
  /// Opens a file and waits until it has loaded.
  void open(const std::filesystem::path& path);
  /// Opens an address of this machine, "http://127.0.0.1:8080/", and waits until it has loaded.
  void open_address(const std::string& address);
  /// The value of a JavaScript expression; throws with its message where it throws. A promise is waited for.
  nlohmann::json evaluate(const std::string& expression);
  /// Waits until the expression is true.
  void wait_for(const std::string& expression);
  void move_mouse(double x, double y);
  /// As if typed where the focus is.
  void type(std::string_view text);
  /// Presses and releases a key, by its name: "ArrowRight", "7", "Tab"; with Shift if `with_shift`.
  void press(const std::string& key, bool with_shift = false);
  /// CPU time of the page's main thread so far, in seconds.
  double main_thread_seconds();
  /// Of every text on the page, the WCAG contrast with what is behind it, as [ratio, text] where it is below 4.5.
  nlohmann::json poor_contrasts();
  /// What is seen, as PNG.
  void take_screenshot(const std::filesystem::path& path);
  /// The page on paper, as PDF in base64.
  std::string print();

  /// Errors and warnings that the page wrote to its console, and exceptions, since it was opened.
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }
  /// Addresses that the page asked for since it was opened, its own first.
  [[nodiscard]] const std::vector<std::string>& requests() const { return requests_; }

 private:
  nlohmann::json call(const std::string& method, nlohmann::json parameters = nlohmann::json::object());
  void set_network(bool is_there);
  void navigate(const std::string& address);
  nlohmann::json read_message();
  void take_event(const nlohmann::json& event);

  TempFolder profile_;
  pid_t process_ = -1;
  int to_browser_ = -1;
  int from_browser_ = -1;
  std::string unread_;
  std::string session_;
  std::int64_t last_id_ = 0;
  bool loaded_ = false;
  std::vector<std::string> complaints_;
  std::vector<std::string> requests_;
};

}  // namespace headroom::test
