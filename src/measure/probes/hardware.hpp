#pragma once

#include <string>

#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// Describes what times depend on, other than the work and the program; times are comparable if the texts are equal.
/// For a GPU it is its name and driver. For a CPU: "AMD EPYC 9R14 (avx512_bf16), 2 of 16 cores, 126 GiB, 2 threads".
/// Memory is rounded to three digits, because a new Linux kernel reserves slightly more or less of it.
[[nodiscard]] std::string describe_hardware(const Machine& machine, const Configuration& configuration);

}  // namespace headroom
