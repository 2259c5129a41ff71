#include "report/quality_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/switches.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

bool is_exact(const std::string& applied) {
  const std::string_view name = std::string_view(applied).substr(0, applied.find('='));
  const auto known = all_switches();
  const auto found = std::ranges::find(known, name, &SwitchInfo::name);
  return found != known.end() && found->exact;
}

}  // namespace

const QualityRecord* find_quality(const Result& result, std::string_view metric) {
  const auto found = std::ranges::find(result.quality, metric, &QualityRecord::metric);
  return found == result.quality.end() ? nullptr : &*found;
}

std::optional<QualityLoss> quality_loss(const Measurement& m, const Measurement& baseline) {
  if (&m == &baseline) return QualityLoss{.value = 0, .basis = "the baseline itself"};
  const QualityRecord* own = find_quality(*m.result, "accuracy");
  const QualityRecord* reference = find_quality(*baseline.result, "accuracy");
  if (own != nullptr && reference != nullptr && own->value && reference->value)
    return QualityLoss{.value = *reference->value - *own->value,
                       .basis = fmt::format("accuracy {} against {} of the baseline", *own->value, *reference->value)};
  if (const QualityRecord* l2 = find_quality(*m.result, "relative_l2"); l2 != nullptr && l2->value)
    return QualityLoss{.value = *l2->value,
                       .basis = fmt::format("relative L2 error {}", format_significant(*l2->value))};
  if (const QualityRecord* psnr = find_quality(*m.result, "psnr_db"); psnr != nullptr) {
    if (psnr->value)
      return QualityLoss{.value = std::pow(10, -*psnr->value / 20),
                         .basis = fmt::format("PSNR {} dB against the baseline", format_significant(*psnr->value))};
    if (psnr->note == "identical") return QualityLoss{.value = 0, .basis = "images identical to the baseline's"};
  }
  if (!m.is_peer && std::ranges::all_of(m.result->configuration.applied, is_exact))
    return QualityLoss{.value = 0, .basis = "only exact switches"};
  return {};
}

}  // namespace headroom
