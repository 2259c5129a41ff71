#pragma once

#include <nanobind/nanobind.h>

#include "use.hpp"

namespace headroom::python {

/// Device, Component, Pass and Session.
void bind_networks(nb::module_& module);

/// A Device, or a new one of that name.
[[nodiscard]] PyDevice device_of(const nb::object& device);
/// "bf16", or nothing.
[[nodiscard]] ComponentOptions options_of(std::optional<std::uint64_t> random_weights,
                                          const std::optional<std::string>& baseline);

using PyComponent = Owned<Component>;

template <class Body>
auto in_turn(const PyDevice& device, const Body& body) {
  const nb::gil_scoped_release without_lock;
  const DeviceUse::Turn turn(*device.use);
  return body();
}

}  // namespace headroom::python
