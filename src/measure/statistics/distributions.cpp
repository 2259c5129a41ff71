#include "measure/statistics/distributions.hpp"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace headroom {
namespace {

boost::math::binomial binomial_of(std::int64_t trials, double probability) {
  return boost::math::binomial(static_cast<double>(trials), probability);
}

}  // namespace

double normal_quantile(double probability) { return quantile(boost::math::normal(), probability); }

double two_sided_normal_p(double z) { return 2 * cdf(complement(boost::math::normal(), z)); }

double students_t_quantile(double degrees_of_freedom, double probability) {
  return quantile(boost::math::students_t(degrees_of_freedom), probability);
}

double binomial_cdf(std::int64_t trials, double probability, std::int64_t successes) {
  return cdf(binomial_of(trials, probability), static_cast<double>(successes));
}

double binomial_tail(std::int64_t trials, double probability, std::int64_t successes) {
  return cdf(complement(binomial_of(trials, probability), static_cast<double>(successes)));
}

}  // namespace headroom
