#pragma once

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

/// Owners of PCRE2's objects. Patterns and subjects are UTF-8.
namespace headroom::pcre2 {

using Code = std::shared_ptr<pcre2_code>;  ///< safe to use from several threads
using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

struct Fault {
  std::string message;     ///< PCRE2's own
  std::size_t offset = 0;  ///< in bytes of the pattern
};

/// Compiles a pattern with PCRE2's option bits. Returns null and fills `fault` if it is malformed.
[[nodiscard]] Code compile(std::string_view pattern, std::uint32_t options, Fault& fault);
/// PCRE2's text for an error code.
[[nodiscard]] std::string message_of(int error);
[[nodiscard]] MatchData make_match_data(const Code& code);
[[nodiscard]] MatchContext make_match_context();

}  // namespace headroom::pcre2
