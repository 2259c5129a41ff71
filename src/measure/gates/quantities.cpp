#include "measure/gates/quantities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ranges>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "base/text/nearest.hpp"
#include "base/text/quantity.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

constexpr std::array<QuantityInfo, kQuantities> kInfos = {{
    {Quantity::kTime, "time", "time", "", false, 0.05},
    {Quantity::kP99, "p99", "p99", "", false, 0.10},
    {Quantity::kMemory, "memory", "peak memory", "", false, 0.05},
    {Quantity::kSize, "size", "weights", "", false, 0.02},
    {Quantity::kPsnr, "psnr", "PSNR", "psnr_db", true, 0.5},
    {Quantity::kAccuracy, "accuracy", "accuracy", "accuracy", true, 0.01},
    {Quantity::kFrechet, "frechet", "Fréchet distance", "frechet_distance", false, 0.05},
    {Quantity::kError, "error", "relative L2 error", "relative_l2", false, 0.10},
    {Quantity::kFlicker, "flicker", "flicker", "flicker", false, 0.05},
    {Quantity::kFlip, "flip", "FLIP", "flip", false, 0.05},
}};

double parse_decibel(std::string_view text, std::string_view option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc{} || !std::isfinite(value) || value <= 0 || unit != "dB")
    fail_usage("{}: '{}' is not a number of dB over zero such as 0.5dB", option, text);
  return value;
}

std::vector<std::string> quantity_names() {
  std::vector<std::string> names;
  for (const QuantityInfo& info : kInfos) names.emplace_back(info.name);
  return names;
}

}  // namespace

std::span<const QuantityInfo> all_quantities() { return kInfos; }

const QuantityInfo& info_of(Quantity quantity) { return kInfos[static_cast<std::size_t>(quantity)]; }

const QuantityInfo* find_metric_quantity(std::string_view metric) {
  if (metric.empty()) return nullptr;
  const auto* const found = std::ranges::find(kInfos, metric, &QuantityInfo::metric);
  return found == kInfos.end() ? nullptr : found;
}

const QuantityInfo* find_quantity(std::string_view name) {
  const auto* const found = std::ranges::find(kInfos, name, &QuantityInfo::name);
  return found == kInfos.end() ? nullptr : found;
}

std::string_view unit_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::kTime:
    case Quantity::kP99:
      return "ms";
    case Quantity::kMemory:
    case Quantity::kSize:
      return "bytes";
    case Quantity::kPsnr:
      return "dB";
    default:
      return {};
  }
}

std::string format_quantity(Quantity quantity, double value) {
  switch (quantity) {
    case Quantity::kTime:
    case Quantity::kP99:
      return format_ms(value);
    case Quantity::kMemory:
    case Quantity::kSize:
      return format_bytes(static_cast<std::uint64_t>(value));
    case Quantity::kPsnr:
      return value >= kMostPsnrDb ? fmt::format("{} dB or more", kMostPsnrDb) : fmt::format("{:.2f} dB", value);
    case Quantity::kAccuracy:
      return fmt::format("{:.1f}%", 100 * value);
    case Quantity::kError:
      return value <= kLeastError ? format_brief(kLeastError) + " or less" : format_significant(value);
    case Quantity::kFrechet:
    case Quantity::kFlicker:
    case Quantity::kFlip:
      return format_significant(value);
  }
  return format_significant(value);
}

std::string format_limit(Quantity quantity, double limit) {
  if (quantity == Quantity::kPsnr) return fmt::format("{:g} dB", limit);
  if (quantity == Quantity::kAccuracy)
    return fmt::format("{:g} {}", 100 * limit, 100 * limit == 1 ? "point" : "points");
  return fmt::format("{:g}%", 100 * limit);
}

Limits::Limits() {
  for (const QuantityInfo& info : kInfos) limits_[index_of(info.quantity)] = info.limit;
}

void Limits::set(Quantity quantity, double limit) {
  limits_[index_of(quantity)] = limit;
  asked_[index_of(quantity)] = true;
}

void Limits::turn_off(Quantity quantity) { off_[index_of(quantity)] = true; }

Limits parse_limits(std::string_view list, std::string_view option) {
  Limits limits;
  if (list.empty()) return limits;
  std::vector<Quantity> seen;
  for (const auto part : std::views::split(list, ',')) {
    const std::string_view entry(part.begin(), part.end());
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos)
      fail_usage("{}: '{}' is not a quantity and its limit such as memory=5%", option, entry);
    const std::string_view name = entry.substr(0, equals), value = entry.substr(equals + 1);
    const QuantityInfo* info = find_quantity(name);
    if (info == nullptr)
      fail_usage("{}: no quantity '{}', there are {}{}", option, name, fmt::join(quantity_names(), ", "),
                 did_you_mean(std::string(name), quantity_names()));
    if (std::ranges::find(seen, info->quantity) != seen.end())
      fail_usage("{}: {} has two limits, expected one", option, name);
    seen.push_back(info->quantity);
    const std::string place = fmt::format("{} {}", option, name);
    if (value != "off")
      limits.set(info->quantity,
                 info->quantity == Quantity::kPsnr ? parse_decibel(value, place) : parse_share(value, place));
    else if (info->quantity == Quantity::kTime)
      fail_usage("{}: time cannot be turned off, expected a share such as time=5%", option);
    else
      limits.turn_off(info->quantity);
  }
  return limits;
}

}  // namespace headroom
