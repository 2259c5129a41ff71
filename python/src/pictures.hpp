#pragma once

#include <nanobind/nanobind.h>

namespace headroom::python {

/// Pipeline, Generator, Image and Stream.
void bind_pictures(nanobind::module_& module);

}  // namespace headroom::python
