#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.hpp"

#include <pcre2.h>

#include <array>
#include <limits>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// What Oniguruma and PCRE2 read alike is kept; see the class.
std::string translate(std::string_view pattern, std::string_view context) {
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && (next == 's' || (next == 'S' && !in_class))) {
      const char* const open = in_class ? "" : next == 's' ? "[" : "[^";
      result.append(open).append(kWhiteSpace).append(in_class ? "" : "]");
      ++i;
    } else if (c == '\\') {
      if (std::string_view("wWbBhHRXKGAzZSN").find(next) != std::string_view::npos)
        fail("{}: the regular expression {} holds \\{}, which is not supported", context, pattern, next);
      result.append(pattern.substr(i++, 2));
    } else {
      if (in_class && (c == '[' || pattern.substr(i, 2) == "&&"))
        fail("{}: the regular expression {} holds a set in a set, which is not supported", context, pattern);
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      result += c;
    }
  }
  return result;
}

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled)
      : code(compiled), limits(pcre2_match_context_create(nullptr), &pcre2_match_context_free) {
    HR_CHECK(limits != nullptr);
    // Long runs of white space are walked back over once; that is work in proportion to the text, and no runaway.
    pcre2_set_match_limit(limits.get(), std::numeric_limits<std::uint32_t>::max());
    static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));  // where there is no JIT, it is interpreted
  }
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
  MatchContext limits;
};

Regex::Regex(std::string_view pattern, std::string_view context)
    : Regex(translate(pattern, context), PCRE2_UTF | PCRE2_UCP, context) {}

Regex Regex::literal(std::string_view text, std::string_view context) {
  return {text, PCRE2_UTF | PCRE2_LITERAL, context};
}

Regex::Regex(std::string_view pattern, unsigned options, std::string_view context) {
  int error = 0;
  std::size_t offset = 0;
  pcre2_code* const compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset, nullptr);
  if (compiled == nullptr) {
    fail("{}: {} is no regular expression that can be used: {} at byte {}", context, pattern, message_of(error),
         offset);
  }
  code_ = std::make_shared<const Code>(compiled);
}

std::vector<Span> Regex::find_all(std::string_view text) const {
  const MatchData match(pcre2_match_data_create_from_pattern(code_->code, nullptr), &pcre2_match_data_free);
  HR_CHECK(match != nullptr);
  std::vector<Span> found;
  std::size_t at = 0;
  while (at < text.size()) {
    // Without the flags the whole text would be checked at each match, and empty matches would not end.
    const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), code_->limits.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) fail("cannot search a text of {} bytes: {}", text.size(), message_of(count));
    const std::size_t* const ends = pcre2_get_ovector_pointer(match.get());
    found.push_back({.begin = ends[0], .end = ends[1]});
    at = ends[1];
  }
  return found;
}

}  // namespace headroom
