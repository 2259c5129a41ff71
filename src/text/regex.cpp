#include "text/regex.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostPatternBytes = 2048;  // published ones have up to 300
constexpr int kMostRepeats = 255;                // {n} is one item of a pattern, for any number of characters

constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// A pattern for an Error message, shortened.
std::string cut_pattern(std::string_view pattern) {
  constexpr std::size_t kMost = 80;
  if (pattern.size() <= kMost) return printable_name(pattern);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(pattern[end]) & 0xC0U) == 0x80) --end;
  return printable_name(pattern.substr(0, end)) + "...";
}

/// Whether an escape (without its backslash) is a number that Oniguruma interprets as a byte: \x80 to \xff, \200 to
/// \377.
bool is_byte(std::string_view escape) {
  const auto is_hexadecimal = [](char c) {
    return std::string_view("0123456789abcdefABCDEF").find(c) != std::string_view::npos;
  };
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  if (escape.size() < 3) return false;
  if (escape[0] == 'x') return is_hexadecimal(escape[1]) && is_hexadecimal(escape[2]) && escape[1] >= '8';
  return (escape[0] == '2' || escape[0] == '3') && is_octal(escape[1]) && is_octal(escape[2]);
}

/// Throws Error if {n}, {n,} or {n,m} at the beginning of `rest` exceeds the allowed number of repeats.
void check_repeats(std::string_view rest, std::string_view pattern, std::string_view context) {
  const std::size_t end = rest.find('}');
  if (end == std::string_view::npos) return;
  for (std::size_t at = 1; at < end; ++at) {
    int count = 0;
    const auto [last, error] = std::from_chars(rest.data() + at, rest.data() + end, count);
    if (error == std::errc::invalid_argument) return;  // not a repeat count
    if (error != std::errc() || count > kMostRepeats)
      fail("{}: the regular expression {} asks for {} repeats, but at most {} are allowed", context,
           cut_pattern(pattern), rest.substr(0, std::min<std::size_t>(end + 1, 20)), kMostRepeats);
    at = static_cast<std::size_t>(last - rest.data());
    if (at < end && rest[at] != ',') return;
  }
}

void check_length(std::string_view pattern, std::string_view context) {
  if (pattern.size() > kMostPatternBytes)
    fail("{}: the pattern {} has {} bytes, but at most {} are allowed", context, cut_pattern(pattern), pattern.size(),
         kMostPatternBytes);
}

/// Translates a pattern from Oniguruma to PCRE2; constructs that are equal in both are kept (see the class).
std::string translate(std::string_view pattern, std::string_view context) {
  check_length(pattern, context);
  const auto refuse = [&](std::string_view what) {
    fail("{}: the regular expression {} holds {}, which is not supported", context, cut_pattern(pattern), what);
  };
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
      if (std::string_view("wWbBhHRXKGAzZSNCQE").find(next) != std::string_view::npos)
        refuse(printable_name(pattern.substr(i, 2)));
      if (is_byte(pattern.substr(i + 1))) refuse("a single byte of a character");
      // Braces after an escape belong to it: \p{L}, \x{2581}.
      const bool has_braces = pattern.substr(std::min(i + 2, pattern.size()), 1) == "{" &&
                              std::string_view("xpPokg").find(next) != std::string_view::npos;
      const std::size_t end = has_braces ? pattern.find('}', i) : std::string_view::npos;
      const std::size_t count = end == std::string_view::npos ? 2 : end + 1 - i;
      result.append(pattern.substr(i, count));
      i += count - 1;
    } else {
      if (in_class && (c == '[' || pattern.substr(i, 2) == "&&")) refuse("a set in a set");
      if (!in_class && (pattern.substr(i, 2) == "(*" || pattern.substr(i, 3) == "(?C")) refuse("a callout or a verb");
      if (!in_class && c == '{' && next == ',') refuse("{,n}");
      if (!in_class && c == '{') check_repeats(pattern.substr(i), pattern, context);
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      result += c;
    }
  }
  return result;
}

/// Work done by a search so far.
struct Work {
  TextBudget& budget;
  std::size_t at = 0;  // position of the last callout
};

/// Called before each item of the pattern that is tried.
int on_item(pcre2_callout_block* block, void* data) noexcept {
  auto& work = *static_cast<Work*>(data);
  const std::size_t at = block->current_position;
  const std::size_t gone_over = std::max(at, work.at) - std::min(at, work.at);
  work.at = at;
  return work.budget.take(1 + gone_over) ? 0 : PCRE2_ERROR_CALLOUT;
}

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view context)
    : Regex(translate(pattern, context), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, context) {}

Regex Regex::literal(std::string_view text, std::string_view context) {
  check_length(text, context);
  return {text, PCRE2_UTF | PCRE2_LITERAL, context};
}

Regex::Regex(std::string_view pattern, unsigned options, std::string_view context) {
  pcre2::Fault fault;
  code_ = pcre2::compile(pattern, options | PCRE2_AUTO_CALLOUT, fault);
  if (code_ == nullptr) {
    fail("{}: {} is no regular expression that can be used: {} at byte {}", context, cut_pattern(pattern),
         fault.message, fault.offset);
  }
  static_cast<void>(pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE));  // interpreted on a machine without JIT
}

std::vector<Span> Regex::find_all(std::string_view text, TextBudget& budget) const {
  const pcre2::MatchData match = pcre2::make_match_data(code_);
  const pcre2::MatchContext limits = pcre2::make_match_context();
  budget.spend(text.size() + 1);
  Work work{.budget = budget};
  // The budget bounds the work, so PCRE2's own limit is not needed.
  pcre2_set_match_limit(limits.get(), std::numeric_limits<std::uint32_t>::max());
  pcre2_set_callout(limits.get(), on_item, &work);
  std::vector<Span> found;
  std::size_t at = 0;
  while (at < text.size()) {
    // Without the flags, each match would validate the whole text, and empty matches would repeat forever.
    work.at = at;
    const int count = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), limits.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count == PCRE2_ERROR_CALLOUT) budget.fail_spent();
    if (count < 0)
      fail("{}: cannot search a text of {} bytes: {}", budget.source(), text.size(), pcre2::message_of(count));
    const std::size_t* const ends = pcre2_get_ovector_pointer(match.get());
    found.push_back({.begin = ends[0], .end = ends[1]});
    at = ends[1];
  }
  return found;
}

}  // namespace headroom
