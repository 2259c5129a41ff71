#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "kernels/conv/convolution.hpp"

namespace headroom::convolutions {

/// A kernel of one way to run convolutions, for tests of that way; kWhyNot says what it does not take.
template <Support (*kWhyNot)(const Problem&, const Target&)>
class WayKernel : public LibraryKernel {
 public:
  using MakeWay = std::function<Way(const Problem& problem, const Target& target)>;

  WayKernel(Op op, MakeWay make_way)
      : LibraryKernel(
            {.name = "way",
             .op = op,
             .device = DeviceKind::kCuda,
             .supports = [](const OpSpec& spec, const Target& target) { return kWhyNot(problem_of(spec), target); },
             .strides_output = false,
             .plan = nullptr}),
        make_way_(std::move(make_way)) {}

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> /*inputs*/,
                                                        std::span<const Operand> /*outputs*/,
                                                        const Target& target) const override {
    const Problem problem = problem_of(spec);
    return std::make_unique<PreparedKernel>(bind(problem, make_way_(problem, target)));
  }

 private:
  MakeWay make_way_;
};

}  // namespace headroom::convolutions
