#define PCRE2_CODE_UNIT_WIDTH 8
#include "io/module_pattern.hpp"

#include <pcre2.h>

#include <array>
#include <cstdint>

#include "base/error.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostKeyBytes = 1000;        // published keys have fewer than 100
constexpr std::uint32_t kMostMatchSteps = 100000;  // names of modules need fewer than 1,000

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

}  // namespace

struct ModulePattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
};

ModulePattern::ModulePattern(std::string_view key, std::string_view context) : key_(key), context_(context) {
  if (key.size() > kMostKeyBytes)
    fail("{}: a key has {} bytes, but at most {} are allowed", context, key.size(), kMostKeyBytes);
  if (key.find("(*") != std::string_view::npos || key.find("(?C") != std::string_view::npos)
    fail("{}: '{}' has a verb or a callout, which is not supported", context, printable_name(key_));
  const std::string whole = "(.*\\.)?(" + key_ + ")$";
  int error = 0;
  std::size_t offset = 0;
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* const compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(), kOptions, &error, &offset, nullptr);
  if (compiled == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    fail("{}: '{}' is not a regular expression: {}", context, printable_name(key_),
         reinterpret_cast<const char*>(text.data()));
  }
  code_ = std::make_shared<const Code>(compiled);
}

bool ModulePattern::matches(std::string_view module) const {
  const MatchData match(pcre2_match_data_create_from_pattern(code_->code, nullptr), &pcre2_match_data_free);
  const MatchContext limits(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  HR_CHECK(match != nullptr && limits != nullptr);
  pcre2_set_match_limit(limits.get(), kMostMatchSteps);
  const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(module.data()), module.size(), 0, 0,
                                match.get(), limits.get());
  if (count == PCRE2_ERROR_MATCHLIMIT)
    fail("{}: '{}' takes more than {} steps to match '{}'", context_, printable_name(key_), kMostMatchSteps,
         printable_name(module));
  return count >= 0;  // a name that is not UTF-8 matches no key
}

}  // namespace headroom
