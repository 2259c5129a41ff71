#pragma once

#include <functional>
#include <utility>

#include "kernels/conv/convolution.hpp"

namespace headroom::convolutions {

/// A kernel of one convolution algorithm, for tests of that algorithm; `why_not` returns the reason if it does not take
/// a problem.
[[nodiscard]] inline LibraryKernel algorithm_kernel(
    Op op, std::function<Support(const Problem&, const Target&)> why_not,
    std::function<Algorithm(const Problem& problem, const DeviceTarget& target)> make_algorithm) {
  return LibraryKernel(
      {.name = "algorithm",
       .op = op,
       .device = DeviceKind::kCuda,
       .supports = [why_not = std::move(why_not)](const OpSpec& spec,
                                                  const Target& target) { return why_not(problem_of(spec), target); },
       .strides_output = false,
       .plan =
           [make = std::move(make_algorithm)](const KernelBinding& binding) {
             const Problem problem = problem_of(binding.spec);
             return bind(problem, make(problem, binding.target));
           }});
}

}  // namespace headroom::convolutions
