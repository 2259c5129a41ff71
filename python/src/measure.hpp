#pragma once

#include <nanobind/nanobind.h>

namespace headroom::python {

/// What the commands bench, ladder, plan and models of the program report.
void bind_measure(nanobind::module_& module);

}  // namespace headroom::python
