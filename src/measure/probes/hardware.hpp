#pragma once

#include <string>

#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// What times depend on besides the work and the program, in words: equal where times may stand beside each other. A
/// GPU and its driver, or "AMD EPYC 9R14 (avx512_bf16), 2 of 16 cores, 126 GiB, 2 threads" of a CPU. Memory counts to
/// three digits, because a new kernel keeps a little more or less of it.
[[nodiscard]] std::string describe_hardware(const Machine& machine, const Configuration& configuration);

}  // namespace headroom
