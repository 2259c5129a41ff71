#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "kernels/conv/convolution.hpp"

namespace headroom::convolutions {

/// A kernel of one convolution algorithm, for tests of that algorithm; kWhyNot returns the reason if it does not
/// take a problem.
template <Support (*kWhyNot)(const Problem&, const Target&)>
class AlgorithmKernel : public LibraryKernel {
 public:
  using MakeAlgorithm = std::function<Algorithm(const Problem& problem, const DeviceTarget& target)>;

  AlgorithmKernel(Op op, MakeAlgorithm make_algorithm)
      : LibraryKernel(
            {.name = "algorithm",
             .op = op,
             .device = DeviceKind::kCuda,
             .supports = [](const OpSpec& spec, const Target& target) { return kWhyNot(problem_of(spec), target); },
             .strides_output = false,
             .plan = nullptr}),
        make_algorithm_(std::move(make_algorithm)) {}

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> /*inputs*/,
                                                        std::span<const Operand> /*outputs*/,
                                                        const DeviceTarget& target) const override {
    const Problem problem = problem_of(spec);
    return std::make_unique<PreparedKernel>(bind(problem, make_algorithm_(problem, target)));
  }

 private:
  MakeAlgorithm make_algorithm_;
};

}  // namespace headroom::convolutions
