#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "kernels/conv/problem.hpp"

namespace headroom::cudnn {

/// Device memory for a few launches of each of a problem's algorithms, before one is chosen.
class ConvolutionTrial {
 public:
  /// As convolutions::Algorithm::run.
  using Launch = std::function<void(void* stream, const convolutions::Operands& operands, void* workspace)>;

  /// `problem` must outlive it. Throws OutOfMemory.
  ConvolutionTrial(const convolutions::Problem& problem, Backend& backend);

  [[nodiscard]] const convolutions::Operands& operands() const noexcept { return operands_; }
  /// At least that much memory, until a call that asks for more. Throws OutOfMemory.
  [[nodiscard]] void* workspace(std::size_t bytes);

  /// Whether results are NaN or infinite wherever x is, for NaN and both infinities. Runs up to six launches, and
  /// reads back up to 16384 results of each. Throws Error where a launch is refused, and OutOfMemory.
  [[nodiscard]] bool keeps_special_values(const Launch& launch, std::size_t workspace_bytes);

 private:
  struct Contents;
  [[nodiscard]] bool keeps(const Launch& launch, void* workspace, const Contents& contents);
  void fill(std::uint32_t word, const void* operand, std::size_t bytes);

  const convolutions::Problem& problem_;
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  Buffer memory_, workspace_;
  std::size_t y_ = 0;  // an offset in memory_
  convolutions::Operands operands_;
};

}  // namespace headroom::cudnn
