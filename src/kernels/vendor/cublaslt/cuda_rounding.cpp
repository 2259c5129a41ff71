#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/core/cuda/fill_words.hpp"
#include "kernels/vendor/cublaslt/rounding.hpp"

namespace headroom::cublaslt {
namespace {

/// The bits of numbers near 1, where e is the step after 1.
struct Bits {
  std::uint16_t one_step;       // 1 + e
  std::uint16_t three_steps;    // 1 + 3e
  std::uint16_t half, quarter;  // of e
};
Bits bits_of(DType dtype) {
  if (dtype == DType::kBF16) return {0x3F81, 0x3F83, 0x3B80, 0x3B00};
  HR_CHECK(dtype == DType::kF16);
  return {0x3C01, 0x3C03, 0x1000, 0x0C00};
}

std::uint32_t word_of(std::uint16_t element) { return element * std::uint32_t{0x10001}; }

}  // namespace

bool RoundingTrials::rounds_once(const GemmSpec& spec, const std::string& algorithm, std::size_t workspace_bytes,
                                 const Launch& launch) {
  const std::scoped_lock lock(mutex_);
  const std::string key = to_text(spec) + " " + algorithm;
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  bool is_once = false;
  try {
    is_once = run(spec, workspace_bytes, launch);
  } catch (const OutOfMemory&) {
    return true;
  } catch (const Error&) {  // refused
  }
  backend_.release_unused();  // memory reports of models must not include it
  return known_[key] = is_once;
}

/// The sums of the first row are (1 + e)^2 = 1 + 2e + e^2, and e/2 is added, in two parts if there is a bias. Rounded
/// once, that is 1 + 3e. A rounding before all is added removes e^2, and the rest is then at most halfway from 1 + 2e
/// to 1 + 3e, which rounds to the even 1 + 2e.
bool RoundingTrials::run(const GemmSpec& spec, std::size_t workspace_bytes, const Launch& launch) {
  const Bits bits = bits_of(spec.dtype);
  const tune::Work work = trial_of(spec);
  const auto aligned = [&](std::size_t i) { return part_bytes(work.operands[i].bytes); };
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < work.operands.size(); bytes += aligned(i++)) offsets.push_back(bytes);
  const Buffer memory =
      backend_.allocate(bytes + std::max(workspace_bytes, kPartAlignment), MemoryCategory::kWorkspace);
  std::vector<void*> operands;
  for (const std::size_t offset : offsets) operands.push_back(memory.at(offset).address());
  const std::unique_ptr<Stream> stream = backend_.make_stream();
  const auto fill = [&](std::size_t i, std::uint16_t element) {
    cuda::launch_fill_words(stream->native_handle(), 0, word_of(element), operands[i], aligned(i) / 4);
  };
  constexpr std::size_t kA = 0, kB = 1, kBias = 2, kC = 3, kResidual = 6;  // as trial_of() lists them
  const std::uint16_t added = spec.has_bias ? bits.quarter : bits.half;
  fill(kA, 0);
  fill(kB, bits.one_step);
  fill(kBias, added);
  fill(kResidual, added);
  fill(kC, 0);
  backend_.copy_from_host(*stream, memory.at(offsets[kA]), &bits.one_step, sizeof bits.one_step);
  launch(stream->native_handle(), operands_of_trial(spec, operands), memory.at(bytes).address());
  std::vector<std::uint16_t> row(static_cast<std::size_t>(spec.n));
  backend_.copy_to_host(*stream, row.data(), memory.at(offsets[kC]), row.size() * sizeof row[0]);
  stream->synchronize();
  return std::ranges::all_of(row, [&](std::uint16_t element) { return element == bits.three_steps; });
}

}  // namespace headroom::cublaslt
