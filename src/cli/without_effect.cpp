#include "cli/without_effect.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/text/list.hpp"

namespace headroom {

std::string sentence_of(const IdleOption& option) {
  std::string name(option.name);
  std::ranges::replace(name, '_', '-');
  return fmt::format("--{} changes nothing: {}", name, option.reason);
}

bool WithoutEffect::is_named(std::string_view switch_name) const {
  if (!switches_.is_given) return false;
  const std::vector<std::string> items = split_list(switches_.list, "--opt");
  return std::ranges::any_of(
      items, [&](const std::string& item) { return std::string_view(item).substr(0, item.find('=')) == switch_name; });
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

void WithoutEffect::say(std::span<const Result> results) const {
  std::set<std::string> said;
  std::vector<std::string> named;
  std::set<std::pair<std::string, std::string>> applied;  // (work, switch)
  for (const Result& result : results)
    for (const std::string& name : result.configuration.applied)
      applied.emplace(work_hash(result.subject), name.substr(0, name.find('=')));
  const auto tell = [&](std::string line, bool has_name) {
    if (!said.insert(line).second) return;
    if (has_name)
      named.push_back(std::move(line));
    else
      log_.info("{}", line);
  };
  for (const Result& result : results) {
    for (const DeclinedSwitch& declined : result.configuration.declined)
      tell(fmt::format("{}: switch {} declined: {}", result.name, declined.name, declined.reason),
           is_named(declined.name) && !applied.contains({work_hash(result.subject), declined.name}));
    for (const KeptNodes& note : result.configuration.kept)
      if (note.nodes.empty()) tell(fmt::format("{}: {}: {}", result.name, note.switch_name, note.reason), false);
  }
  say_named(named);
}

void WithoutEffect::say_named(const std::vector<std::string>& sentences) const {
  if (switches_.is_strict && !sentences.empty()) fail("--strict: {}", fmt::join(sentences, "; "));
  for (const std::string& sentence : sentences) log_.warning("{}", sentence);
}

}  // namespace headroom
