#include "report/script_engine.hpp"

#include <duktape.h>

#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {

using Measure = std::function<double(std::string_view, std::string_view)>;

struct ScriptEngine::State {
  duk_context* context = nullptr;
  std::vector<std::unique_ptr<Measure>> measures;  // called back by address
};

namespace {

[[noreturn]] void on_fatal(void* /*user*/, const char* message) {
  std::fprintf(stderr, "headroom: internal error: JavaScript engine: %s\n", message != nullptr ? message : "");
  std::abort();
}

std::string_view string_at(duk_context* context, duk_idx_t index) {
  duk_size_t size = 0;
  const char* text = duk_safe_to_lstring(context, index, &size);
  return {text, size};
}

duk_ret_t call_measure(duk_context* context) {
  duk_push_current_function(context);
  duk_get_prop_string(context, -1, "measure");
  const auto* measure = static_cast<const Measure*>(duk_get_pointer(context, -1));
  double width = -1;
  try {
    width = (*measure)(string_at(context, 0), string_at(context, 1));
  } catch (const std::exception&) {
    width = -1;  // no C++ exception may cross the interpreter's frames
  }
  if (width < 0) return duk_generic_error(context, "text cannot be measured");
  duk_push_number(context, width);
  return 1;
}

/// Takes the error off the stack and throws it.
[[noreturn]] void throw_script_error(duk_context* context, std::string_view name) {
  std::string message(string_at(context, -1));
  if (duk_is_error(context, -1) != 0) {
    duk_get_prop_string(context, -1, "stack");
    message = string_at(context, -1);
    duk_pop(context);
  }
  duk_pop(context);
  for (char& c : message)
    if (c == '\n') c = ' ';
  fail("{}: JavaScript failed: {}", name, message);
}

}  // namespace

ScriptEngine::ScriptEngine() : state_(std::make_unique<State>()) {
  state_->context = duk_create_heap(nullptr, nullptr, nullptr, nullptr, on_fatal);
  if (state_->context == nullptr) fail("the JavaScript engine cannot start: out of memory");
}

ScriptEngine::~ScriptEngine() { duk_destroy_heap(state_->context); }

void ScriptEngine::run(std::string_view source, std::string_view name) {
  duk_context* context = state_->context;
  duk_push_lstring(context, name.data(), name.size());
  if (duk_pcompile_lstring_filename(context, 0, source.data(), source.size()) != 0 ||
      duk_pcall(context, 0) != DUK_EXEC_SUCCESS)
    throw_script_error(context, name);
  duk_pop(context);
}

std::string ScriptEngine::call(std::string_view function, std::string_view argument) {
  duk_context* context = state_->context;
  if (duk_peval_lstring(context, function.data(), function.size()) != 0) throw_script_error(context, function);
  duk_push_lstring(context, argument.data(), argument.size());
  if (duk_pcall(context, 1) != DUK_EXEC_SUCCESS) throw_script_error(context, function);
  std::string result(string_at(context, -1));
  duk_pop(context);
  return result;
}

void ScriptEngine::define_measure(std::string_view name, Measure measure) {
  duk_context* context = state_->context;
  state_->measures.push_back(std::make_unique<Measure>(std::move(measure)));
  duk_push_c_function(context, call_measure, 2);
  duk_push_pointer(context, state_->measures.back().get());
  duk_put_prop_string(context, -2, "measure");
  duk_put_global_lstring(context, name.data(), name.size());
}

}  // namespace headroom
