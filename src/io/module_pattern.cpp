#include "io/module_pattern.hpp"

#include <cstdint>

#include "base/error.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostKeyBytes = 1000;        // published keys have fewer than 100
constexpr std::uint32_t kMostMatchSteps = 100000;  // names of modules need fewer than 1,000

}  // namespace

ModulePattern::ModulePattern(std::string_view key, std::string_view context) : key_(key), context_(context) {
  if (key.size() > kMostKeyBytes)
    fail("{}: a key has {} bytes, but at most {} are allowed", context, key.size(), kMostKeyBytes);
  if (key.find("(*") != std::string_view::npos || key.find("(?C") != std::string_view::npos)
    fail("{}: '{}' has a verb or a callout, which is not supported", context, printable_name(key_));
  const std::string whole = "(.*\\.)?(" + key_ + ")$";
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C;
  pcre2::Fault fault;
  code_ = pcre2::compile(whole, kOptions, fault);
  if (code_ == nullptr) fail("{}: '{}' is not a regular expression: {}", context, printable_name(key_), fault.message);
}

bool ModulePattern::matches(std::string_view module) const {
  const pcre2::MatchData match = pcre2::make_match_data(code_);
  const pcre2::MatchContext limits = pcre2::make_match_context();
  pcre2_set_match_limit(limits.get(), kMostMatchSteps);
  const int count = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(module.data()), module.size(), 0, 0,
                                match.get(), limits.get());
  if (count == PCRE2_ERROR_MATCHLIMIT)
    fail("{}: '{}' takes more than {} steps to match '{}'", context_, printable_name(key_), kMostMatchSteps,
         printable_name(module));
  return count >= 0;  // a name that is not UTF-8 matches no key
}

}  // namespace headroom
