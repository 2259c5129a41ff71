#pragma once

#include <cstdint>

/// Functions of probability distributions, computed by Boost.Math. Only distributions.cpp includes its headers, which
/// take five seconds to compile.
namespace headroom {

/// The quantile of a standard normal distribution.
[[nodiscard]] double normal_quantile(double probability);
/// The probability that a standard normal variable is at least `z` away from 0; z >= 0.
[[nodiscard]] double two_sided_normal_p(double z);
/// The quantile of Student's t distribution.
[[nodiscard]] double students_t_quantile(double degrees_of_freedom, double probability);
/// The probability of at most `successes` in so many trials that each succeed with `probability`.
[[nodiscard]] double binomial_cdf(std::int64_t trials, double probability, std::int64_t successes);
/// The probability of more than `successes`, accurate if it is small.
[[nodiscard]] double binomial_tail(std::int64_t trials, double probability, std::int64_t successes);

}  // namespace headroom
