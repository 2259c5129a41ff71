#include "measure/probes/known_cards.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text/nearest.hpp"
#include "measure/probes/prediction.hpp"

namespace headroom {
namespace {

constexpr double kGb = 1e9, kTera = 1e12, kGib = 1024.0 * 1024 * 1024;

constexpr std::array kCards = {
#define HR_CARD(key, name, gbs, f32, tf32, bf16, f8e4m3, i8, gib, watts, source)                        \
  KnownCard{key,        name,       (gbs)*kGb, (f32)*kTera, (tf32)*kTera, (bf16)*kTera, (f8e4m3)*kTera, \
            (i8)*kTera, (gib)*kGib, watts,     source},
#include "measure/probes/known_cards.def"
#undef HR_CARD
};

}  // namespace

double KnownCard::flops(std::string_view arithmetic) const {
  if (arithmetic == "bf16" || arithmetic == "f16") return bf16;
  if (arithmetic == "tf32") return tf32;
  if (arithmetic == "f8e4m3") return f8e4m3;
  if (arithmetic == "i8") return i8;
  return f32;
}

std::span<const KnownCard> known_cards() { return kCards; }

const KnownCard* card_of(std::string_view name) {
  const auto is_of = [&](const KnownCard& card) {
    const std::size_t at = name.find(card.name), end = at + card.name.size();
    const bool is_whole_word = end >= name.size() || name[end] == ' ' || name[end] == '-';  // an L40 is no L4
    return at != std::string_view::npos && is_whole_word;
  };
  const auto found = std::ranges::find_if(kCards, is_of);
  return found == kCards.end() ? nullptr : &*found;
}

const KnownCard& card_named(std::string_view key) {
  const auto found = std::ranges::find(kCards, key, &KnownCard::key);
  if (found != kCards.end()) return *found;
  std::vector<std::string> keys;
  for (const KnownCard& card : known_cards()) keys.emplace_back(card.key);
  fail_usage("--on: '{}' is no known card, there are {}{}", key, fmt::join(keys, ", "),
             did_you_mean(std::string(key), keys));
}

CardPrediction predict_on(const KnownCard& card, const Program& program) {
  CardPrediction prediction{.card = &card};
  for (const int i : launches_of_step(program)) {
    const Step& launch = program.steps[static_cast<std::size_t>(i)];
    double by_flops_s = 0;
    if (launch.kernel != nullptr && launch.cost.unit == ComputeUnit::kMatrix) {
      const std::string_view arithmetic = launch.kernel->compute_name(launch.spec);
      if (card.flops(arithmetic) == 0) return {.card = &card, .lacks = arithmetic};
      by_flops_s = launch.cost.flops / card.flops(arithmetic);
    }
    const double by_bytes_s = launch.cost.bytes / card.bytes_per_s;
    prediction.floor_ms += 1000 * std::max(by_flops_s, by_bytes_s);
    prediction.ms += 1000 * std::max(by_flops_s / kReachedOfFlops, by_bytes_s / kReachedOfMemory);
  }
  std::size_t bytes = program.has_arena ? program.arena_bytes : program.arena_lower_bound_bytes;
  for (const WeightUse& weight : program.weights) bytes += weight.bytes;
  prediction.fits = static_cast<double>(bytes) <= card.memory_bytes;
  return prediction;
}

}  // namespace headroom
