#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "kernels/conv/problem.hpp"

namespace headroom::cudnn {

/// Device memory for a few launches of one of a problem's algorithms, before the algorithm is chosen.
class ConvolutionTrial {
 public:
  /// As convolutions::Algorithm::run.
  using Launch = std::function<void(void* stream, const convolutions::Operands& operands, void* workspace)>;

  /// `problem` must outlive it. Throws OutOfMemory.
  ConvolutionTrial(const convolutions::Problem& problem, Backend& backend, std::size_t workspace_bytes);

  [[nodiscard]] const convolutions::Operands& operands() const noexcept { return operands_; }
  [[nodiscard]] void* workspace() const { return memory_.at(workspace_).address(); }

  /// Whether results are NaN or infinite wherever x is, for NaN and both infinities. Runs up to six launches, and
  /// reads back up to 16384 results of each. Throws Error where a launch is refused.
  [[nodiscard]] bool keeps_special_values(const Launch& launch);

 private:
  struct Contents;
  [[nodiscard]] bool keeps(const Launch& launch, const Contents& contents);
  void fill(std::uint32_t word, const void* operand, std::size_t bytes);

  const convolutions::Problem& problem_;
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  Buffer memory_;
  std::size_t y_ = 0, workspace_ = 0;  // offsets
  convolutions::Operands operands_;
};

}  // namespace headroom::cudnn
