#pragma once

#include "backends/backend.hpp"
#include "doctor/machine_facts.hpp"

namespace headroom::doctor {

/// Measures for about a second: copies by all threads of a CPU, or on a GPU, and what disturbed them.
[[nodiscard]] MeasuredFacts measure_machine(Backend& backend);

}  // namespace headroom::doctor
