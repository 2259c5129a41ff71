#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace headroom {

/// A JavaScript (ES5) interpreter inside the program: no files, no network, no clock. Equal scripts and arguments give equal results:
/// sort() is stable, and Math.random() always the same from the beginning or Math.random.restart() on. Not for several
/// threads at once.
class ScriptEngine {
 public:
  ScriptEngine();
  ~ScriptEngine();
  ScriptEngine(const ScriptEngine&) = delete;
  ScriptEngine& operator=(const ScriptEngine&) = delete;

  /// Runs a program. Throws Error with `name` and JavaScript's message where it throws.
  void run(std::string_view source, std::string_view name);
  /// Calls the function that the expression `function` gives with one string; what it returns, as a string. Throws
  /// Error where it throws.
  [[nodiscard]] std::string call(std::string_view function, std::string_view argument);
  /// Defines the global function `name`(text, font), which returns a number.
  void define_measure(std::string_view name,
                      std::function<double(std::string_view text, std::string_view font)> measure);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headroom
