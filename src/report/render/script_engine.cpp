#include "report/render/script_engine.hpp"

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
  std::vector<std::unique_ptr<Measure>> measures;  // callbacks, passed by address
};

namespace {

// Makes equal scripts give equal results. sort() is stable (as ECMAScript 2019 requires, section 22.1.3.27, and
// browsers do); Duktape's quicksort takes pivots at random. random() always gives the same numbers. The time is
// always the first moment of 1970, because the chart library changes its text measurement when measuring takes
// long.
constexpr std::string_view kDeterminism = R"js(
(function () {
  function in_order_of_text(a, b) { a = String(a); b = String(b); return a < b ? -1 : a > b ? 1 : 0; }
  function stable_sort(compare) {
    if (compare !== undefined && typeof compare !== 'function') throw new TypeError('sort() takes a function');
    var precedes = compare || in_order_of_text, length = this.length >>> 0, from = [], to = [], i, width;
    for (i = 0; i < length; ++i) if (i in this && this[i] !== undefined) from.push(this[i]);
    var count = from.length, unknown = 0;
    for (i = 0; i < length; ++i) if (i in this && this[i] === undefined) ++unknown;
    for (width = 1; width < count; width *= 2) {
      for (var low = 0; low < count; low += 2 * width) {
        var middle = Math.min(low + width, count), high = Math.min(low + 2 * width, count), a = low, b = middle;
        for (i = low; i < high; ++i) to[i] = a < middle && (b >= high || !(precedes(from[a], from[b]) > 0)) ? from[a++] : from[b++];
      }
      var sorted = to;
      to = from;
      from = sorted;
    }
    for (i = 0; i < count; ++i) this[i] = from[i];
    for (; i < count + unknown; ++i) this[i] = undefined;
    for (; i < length; ++i) delete this[i];
    return this;
  }
  Object.defineProperty(Array.prototype, 'sort', {value: stable_sort, writable: true, enumerable: false, configurable: true});
  var state = 1;
  Math.random = function () {  // Park and Miller, "Random number generators: good ones are hard to find", 1988
    state = state * 16807 % 2147483647;
    return state / 2147483647;
  };
  Math.random.restart = function () { state = 1; };
  var RealDate = Date;
  function FixedDate(year, month, day, hour, minute, second, ms) {
    if (!(this instanceof FixedDate)) return new RealDate(0).toString();
    if (arguments.length === 0) return new RealDate(0);
    if (arguments.length === 1) return new RealDate(year);
    return new RealDate(year, month, day === undefined ? 1 : day, hour || 0, minute || 0, second || 0, ms || 0);
  }
  FixedDate.prototype = RealDate.prototype;
  FixedDate.now = function () { return 0; };
  FixedDate.parse = RealDate.parse;
  FixedDate.UTC = RealDate.UTC;
  this.Date = FixedDate;
}).call(this);
)js";

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

/// Pops the error from the stack and throws it.
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
  run(kDeterminism, "determinism");
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
