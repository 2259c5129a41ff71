#include "measure/quality/picture_comparison.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "measure/quality/flip.hpp"
#include "measure/quality/quality.hpp"

namespace headroom {
namespace {

double mean_squared_difference(std::span<const float> reference, std::span<const float> picture) {
  double sum = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double difference =
        double{std::clamp(picture[i], -1.0F, 1.0F)} - double{std::clamp(reference[i], -1.0F, 1.0F)};
    sum += difference * difference;
  }
  return sum / static_cast<double>(reference.size());
}

}  // namespace

void PictureComparison::add(const HostTensor& reference, const HostTensor& pictures) {
  const Shape& shape = pictures.shape();
  if (!(shape == reference.shape()) || shape.rank() != 4)
    fail("pictures of shape {} cannot be compared with ones of shape {}", shape, reference.shape());
  const auto elements = static_cast<std::size_t>(shape[1] * shape[2] * shape[3]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0]); ++i) {
    const std::span<const float> wanted = reference.as<float>().subspan(i * elements, elements);
    const std::span<const float> made = pictures.as<float>().subspan(i * elements, elements);
    flips_.push_back(flip(wanted, made, shape[1], shape[2], shape[3]));  // rejects values that are not finite
    squared_errors_.push_back(mean_squared_difference(wanted, made));
  }
}

std::vector<QualityRecord> PictureComparison::records() const {
  const std::string against = fmt::format("baseline, {}, same seeds", format_count(count(), "image"));
  const std::optional<Estimate> psnr = psnr_estimate(squared_errors_);
  QualityRecord db = psnr_record(against, psnr ? std::optional(psnr->value) : std::nullopt);
  if (psnr) db.interval = psnr->interval;
  const Estimate mean = mean_estimate(flips_);
  return {std::move(db),
          {.metric = "flip", .against = against, .value = mean.value, .interval = mean.interval, .note = {}}};
}

}  // namespace headroom
