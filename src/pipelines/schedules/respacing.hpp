#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace headroom {

/// Replaces noise levels by others with the same first and last level, spaced differently in between.
struct Respacing {
  enum class Kind : std::uint8_t {
    kNone,
    kKarras,       ///< even in the 7th root (Karras et al., "Elucidating the Design Space", 2022, equation 5)
    kExponential,  ///< even in the logarithm
    kBeta,         ///< quantiles of a beta distribution (Lee et al., "Beta Sampling is All You Need", 2024)
  };
  Kind kind = Kind::kNone;
  std::optional<double> sigma_min = std::nullopt;  ///< replaces the last level
  std::optional<double> sigma_max = std::nullopt;  ///< replaces the first level

  /// `steps` levels from `first` down to `last`; kind must not be kNone.
  [[nodiscard]] std::vector<double> levels(double first, double last, std::int64_t steps) const;
};

/// The quantile of a symmetric beta distribution, with both parameters `shape`, for probability `p` from 0 to 1.
[[nodiscard]] double beta_quantile(double p, double shape);

}  // namespace headroom
