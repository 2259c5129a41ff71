#include "measure/suites/benchmark_names.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "measure/suites/configuration_name.hpp"

namespace headroom {
namespace {

bool is_own(const Result& result) { return result.source.name == Source{}.name; }

std::string plain_name(const Machine& machine, const Result& result) {
  std::string name = shown_name(machine, result);
  if (result.subject.kind != SubjectKind::kKernel) name = fmt::format("{} {}", result.subject.name, name);
  return is_own(result) ? name : fmt::format("{} by {}", name, result.source.name);
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

std::string shown_name(const Machine& machine, const Result& result) {
  // Cells that did not fit in memory name no switches in the files of older versions.
  const bool has_own_name =
      result.subject.kind == SubjectKind::kKernel || !is_own(result) || result.configuration.asked.empty();
  return has_own_name ? result.name : asked_name(machine, result.configuration);
}

void BenchmarkNames::add(const ResultFile& file) {
  for (const Result& result : file.results)
    requests_[plain_name(file.machine, result)].try_emplace(work_hash(result.subject), result.subject.request);
}

std::string BenchmarkNames::of(const Machine& machine, const Result& result) const {
  const std::string name = plain_name(machine, result);
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
