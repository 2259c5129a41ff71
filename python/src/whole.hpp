#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "headroom.hpp"

namespace headroom::python {

namespace nb = nanobind;

/// An argument's name as a template argument.
template <std::size_t kSize>
struct ArgumentName {
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is a name
  consteval ArgumentName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize] = {};
};

/// The integer in `given`: a Python int, or a number of another library that is a whole one. Throws Error with the
/// argument's name for any other object, and for a number that T cannot hold.
template <std::integral T>
T to_whole(nb::handle given, const char* name) {
  const nb::object number = nb::steal(PyNumber_Index(given.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    throw Error(std::string(name) + " is " + nb::repr(given).c_str() + ", expected a whole number",
                Error::Kind::kUsage);
  }
  T value = 0;
  if (!nb::try_cast(number, value, /*convert=*/false))
    throw Error(std::string(name) + " is " + nb::str(number).c_str() + ", expected " +
                    std::to_string(std::numeric_limits<T>::min()) + " to " +
                    std::to_string(std::numeric_limits<T>::max()),
                Error::Kind::kUsage);
  return value;
}

/// An integer argument. nanobind's own conversion answers a wrong one with a list of signatures; this throws the Error
/// of to_whole() when the argument is used.
template <std::integral T, ArgumentName kName>
class Whole {
 public:
  Whole() = default;
  explicit Whole(nb::handle given) : given_(given) {}
  // NOLINTNEXTLINE(google-explicit-constructor): it is read as the number
  operator T() const { return to_whole<T>(given_, kName.text); }

 private:
  nb::handle given_;
};

/// An integer argument that may be None.
template <std::integral T, ArgumentName kName>
class OptionalWhole {
 public:
  OptionalWhole() = default;
  explicit OptionalWhole(nb::handle given) : given_(given) {}
  // NOLINTNEXTLINE(google-explicit-constructor): it is read as the number
  operator std::optional<T>() const {
    if (given_.is_none()) return std::nullopt;
    return to_whole<T>(given_, kName.text);
  }

 private:
  nb::handle given_;
};

}  // namespace headroom::python

namespace nanobind::detail {

template <class T, headroom::python::ArgumentName kName>
struct type_caster<headroom::python::Whole<T, kName>> {
  using Argument = headroom::python::Whole<T, kName>;
  NB_TYPE_CASTER(Argument, const_name("int"))
  bool from_python(handle given, std::uint32_t, cleanup_list*) noexcept {
    value = Argument(given);
    return true;
  }
};

template <class T, headroom::python::ArgumentName kName>
struct type_caster<headroom::python::OptionalWhole<T, kName>> {
  using Argument = headroom::python::OptionalWhole<T, kName>;
  NB_TYPE_CASTER(Argument, const_name("int"))
  bool from_python(handle given, std::uint32_t, cleanup_list*) noexcept {
    value = Argument(given);
    return true;
  }
};

template <class T, headroom::python::ArgumentName kName>
struct has_arg_defaults<headroom::python::OptionalWhole<T, kName>> : std::true_type {};

}  // namespace nanobind::detail
