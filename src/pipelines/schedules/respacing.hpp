#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace headroom {

/// Noise levels that keep the first and the last of those they replace, and lie otherwise between.
struct Respacing {
  enum class Kind : std::uint8_t {
    kNone,
    kKarras,       ///< even in the 7th root (Karras et al., "Elucidating the Design Space", 2022, equation 5)
    kExponential,  ///< even in the logarithm
    kBeta,         ///< quantiles of a beta distribution (Lee et al., "Beta Sampling is All You Need", 2024)
  };
  Kind kind = Kind::kNone;
  std::optional<double> sigma_min = std::nullopt;  ///< in place of the last
  std::optional<double> sigma_max = std::nullopt;  ///< in place of the first

  /// `steps` levels from `first` down to `last`; kind must not be kNone.
  [[nodiscard]] std::vector<double> levels(double first, double last, std::int64_t steps) const;
};

/// The value that a symmetric beta distribution, of both parameters `shape`, is below with probability `p`, from 0 to 1.
[[nodiscard]] double beta_quantile(double p, double shape);

}  // namespace headroom
