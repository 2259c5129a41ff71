#include "base/text/pcre2.hpp"

#include <array>

#include "base/error.hpp"

namespace headroom::pcre2 {

Code compile(std::string_view pattern, std::uint32_t options, Fault& fault) {
  int error = 0;
  pcre2_code* const compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                                             &error, &fault.offset, nullptr);
  if (compiled == nullptr) {
    fault.message = message_of(error);
    return nullptr;
  }
  return {compiled, &pcre2_code_free};
}

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

MatchData make_match_data(const Code& code) {
  MatchData data(pcre2_match_data_create_from_pattern(code.get(), nullptr), &pcre2_match_data_free);
  HR_CHECK(data != nullptr);
  return data;
}

MatchContext make_match_context() {
  MatchContext context(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  HR_CHECK(context != nullptr);
  return context;
}

}  // namespace headroom::pcre2
