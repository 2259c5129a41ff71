#include "base/text/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace headroom {
namespace {

constexpr std::size_t kMostNames = 3;
constexpr std::size_t kMostLetters = 64;  // of the given name: longer text is not a typing error

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

/// Edit distance of `given` and `known`. With `part`, the distance to the nearest substring of `known` (Sellers
/// 1980).
std::size_t edit_distance(std::string_view given, std::string_view known, bool part) {
  std::vector<std::size_t> before_last, last(known.size() + 1), row(known.size() + 1);
  if (!part) std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= given.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= known.size(); ++j) {
      const std::size_t wrong = given[i - 1] == known[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + wrong});
      if (i > 1 && j > 1 && given[i - 1] == known[j - 2] && given[i - 2] == known[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return part ? *std::ranges::min_element(last) : last.back();
}

std::size_t distance_of(std::string_view given, std::string_view known, Likeness likeness) {
  constexpr std::size_t kShortestBeginning = 2;
  if (likeness == Likeness::kPart) return edit_distance(given, known, true);
  const bool begins = given.size() >= kShortestBeginning && known.starts_with(given);
  return std::min(edit_distance(given, known, false), begins ? std::size_t{1} : given.size());
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view given, std::span<const std::string> known, Likeness likeness) {
  if (given.empty() || given.size() > kMostLetters) return {};
  const std::string wanted = lower_case(given);
  const std::size_t most = std::max<std::size_t>(1, wanted.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : known) {
    const std::size_t distance = distance_of(wanted, lower_case(name), likeness);
    if (distance <= most && distance < wanted.size() && name != given) near.emplace_back(distance, name);
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> names;
  for (const auto& [distance, name] : near)
    if (names.size() < kMostNames && distance <= near.front().first + 1) names.push_back(name);
  return names;
}

std::string did_you_mean(std::string_view given, std::span<const std::string> known, Likeness likeness) {
  const std::vector<std::string> names = nearest_names(given, known, likeness);
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += fmt::format("{}'{}'", i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return list.empty() ? "" : fmt::format("; did you mean {}?", list);
}

}  // namespace headroom
