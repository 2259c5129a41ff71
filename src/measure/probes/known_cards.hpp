#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/program.hpp"

/// GPUs by their data sheets (known_cards.def), and what a step would take on one.
namespace headroom {

struct KnownCard {
  std::string_view key = {};   ///< as a user names it: "h100"
  std::string_view name = {};  ///< part of NVML's name
  double bytes_per_s = 0;
  double f32 = 0, tf32 = 0, bf16 = 0, f8e4m3 = 0, i8 = 0;  ///< FLOP/s of matmuls; 0: no units for it
  double memory_bytes = 0, power_w = 0;
  std::string_view source = {};

  /// The peak in this arithmetic, as named by Kernel::compute_name(); 0 if it has no units for it.
  [[nodiscard]] double flops(std::string_view arithmetic) const;
};

[[nodiscard]] std::span<const KnownCard> known_cards();
/// The card that NVML calls `name`, or null.
[[nodiscard]] const KnownCard* card_of(std::string_view name);
/// Throws a usage Error with the keys that there are.
[[nodiscard]] const KnownCard& card_named(std::string_view key);

/// Shares of the data sheet's peaks that an H200 reaches: a copy, and matmuls of 4,608 rows in bf16 and FP8
/// (docs/gpu_facts.md).
inline constexpr double kReachedOfMemory = 0.89, kReachedOfFlops = 0.7;

/// A step on another card, with the launches of this plan: a prediction by tabled rates only.
struct CardPrediction {
  const KnownCard* card = nullptr;
  double floor_ms = 0;          ///< at the peaks of the data sheet: a lower bound for these launches
  double ms = 0;                ///< at the shares of them that an H200 reaches; launches run back to back
  bool fits = true;             ///< activations and weights into its memory
  std::string_view lacks = {};  ///< arithmetic of the plan that it has no units for; there are no times then
};
[[nodiscard]] CardPrediction predict_on(const KnownCard& card, const Program& program);

}  // namespace headroom
