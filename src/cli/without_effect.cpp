#include "cli/without_effect.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/text/list.hpp"
#include "measure/suites/benchmark_names.hpp"

namespace headroom {
namespace {

std::string_view without_argument(std::string_view switch_name) { return switch_name.substr(0, switch_name.find('=')); }

/// Rungs of a ladder join their switches by "+", all other results by ",".
std::string table_name(const Machine& machine, const Result& result) {
  const bool is_list = result.name == fmt::format("{}", fmt::join(result.configuration.asked, ","));
  return is_list ? shown_name(machine, result) : result.name;
}

}  // namespace

std::string sentence_of(const IdleOption& option) {
  std::string name(option.name);
  std::ranges::replace(name, '_', '-');
  return fmt::format("--{} changes nothing: {}", name, option.reason);
}

bool WithoutEffect::is_named(std::string_view switch_name) const {
  if (!switches_.is_given) return false;
  const std::vector<std::string> items = split_list(switches_.list, "--opt");
  return std::ranges::any_of(
      items, [&](const std::string& item) { return without_argument(item) == without_argument(switch_name); });
}

void WithoutEffect::say(const std::vector<Declined>& declined) const {
  std::vector<std::string> named;
  for (const Declined& one : declined) {
    std::string sentence = fmt::format("switch {} declined: {}", one.switch_name, one.reason);
    if (is_named(one.switch_name))
      named.push_back(std::move(sentence));
    else if (switches_.is_given)
      log_.info("{}", sentence);
  }
  say_named(named);
}

void WithoutEffect::say(std::span<const IdleOption> idle) const {
  std::vector<std::string> named;
  for (const IdleOption& option : idle) named.push_back(sentence_of(option));
  say_named(named);
}

void WithoutEffect::say(std::string sentence) const { say_named({std::move(sentence)}); }

void WithoutEffect::say(const ResultFile& file) const {
  std::set<std::string> said;
  std::vector<std::string> named;
  std::set<std::pair<std::string, std::string>> applied;  // (work, switch)
  for (const Result& result : file.results)
    for (const std::string& name : result.configuration.applied)
      applied.emplace(work_hash(result.subject), without_argument(name));
  const auto tell = [&](std::string line, bool has_name) {
    if (!said.insert(line).second) return;
    if (has_name)
      named.push_back(std::move(line));
    else
      log_.info("{}", line);
  };
  for (const Result& result : file.results) {
    const std::string name = table_name(file.machine, result), work = work_hash(result.subject);
    for (const DeclinedSwitch& declined : result.configuration.declined)
      tell(fmt::format("{}: switch {} declined: {}", name, declined.name, declined.reason),
           is_named(declined.name) && !applied.contains({work, std::string(without_argument(declined.name))}));
    for (const KeptNodes& note : result.configuration.kept)
      if (note.nodes.empty()) tell(fmt::format("{}: {}: {}", name, note.switch_name, note.reason), false);
  }
  say_named(named);
}

void WithoutEffect::say_named(const std::vector<std::string>& sentences) const {
  if (switches_.is_strict && !sentences.empty()) fail("--strict: {}", fmt::join(sentences, "; "));
  for (const std::string& sentence : sentences) log_.warning("{}", sentence);
}

}  // namespace headroom
