#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace headroom {

/// An embedded JavaScript (ES5) interpreter without files, network or clock. Equal scripts and arguments give equal
/// results: sort() is stable, and Math.random() gives a fixed sequence from the beginning or from
/// Math.random.restart(). Not thread-safe.
class ScriptEngine {
 public:
  ScriptEngine();
  ~ScriptEngine();
  ScriptEngine(const ScriptEngine&) = delete;
  ScriptEngine& operator=(const ScriptEngine&) = delete;

  /// Runs a program. If it throws, throws Error with `name` and JavaScript's message.
  void run(std::string_view source, std::string_view name);
  /// Evaluates the expression `function`, calls the resulting function with one string, and returns its result as a
  /// string. Throws Error if it throws.
  [[nodiscard]] std::string call(std::string_view function, std::string_view argument);
  /// Defines the global function `name`(text, font), which returns a number.
  void define_measure(std::string_view name,
                      std::function<double(std::string_view text, std::string_view font)> measure);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headroom
