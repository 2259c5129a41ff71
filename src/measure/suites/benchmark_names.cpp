#include "measure/suites/benchmark_names.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

namespace headroom {
namespace {

std::string plain_name(const Result& result) {
  std::string name = result.subject.kind == SubjectKind::kKernel
                         ? result.name
                         : fmt::format("{} {}", result.subject.name, shown_name(result));
  if (result.source.name != "headroom") name += fmt::format(" by {}", result.source.name);
  return name;
}

/// A member of a request in words: "token rows 16"; empty if it has none.
std::string in_words(const nlohmann::json& request, const std::string& key) {
  std::string what = key;
  std::ranges::replace(what, '_', ' ');
  const auto found = request.find(key);
  if (found == request.end()) return {};
  return fmt::format("{} {}", what, found->is_string() ? found->get<std::string>() : found->dump());
}

}  // namespace

std::string shown_name(const Result& result) {
  std::string name = result.name;
  if (name == fmt::format("{}", fmt::join(result.configuration.asked, ","))) std::ranges::replace(name, ',', '+');
  return name;
}

void BenchmarkNames::add(const Result& result) {
  requests_[plain_name(result)].try_emplace(work_hash(result.subject), result.subject.request);
}

void BenchmarkNames::add(const ResultFile& file) {
  for (const Result& result : file.results) add(result);
}

std::string BenchmarkNames::of(const Result& result) const {
  const std::string name = plain_name(result);
  const nlohmann::json& own = result.subject.request;
  std::set<std::string> keys;
  for (const auto& [hash, request] : requests_.at(name))
    for (const auto& [key, value] : request.items()) keys.insert(key);
  std::vector<std::string> apart;
  for (const std::string& key : keys) {
    const std::string words = in_words(own, key);
    const auto differs = [&](const auto& other) { return in_words(other.second, key) != words; };
    if (!words.empty() && std::ranges::any_of(requests_.at(name), differs)) apart.push_back(words);
  }
  return apart.empty() ? name : fmt::format("{} ({})", name, fmt::join(apart, ", "));
}

}  // namespace headroom
