#include "base/error.hpp"

namespace headroom::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  throw std::logic_error(fmt::format("{}:{}: internal check failed: {}{}{}{}", file, line, condition,
                                     values.empty() ? "" : " (", values, values.empty() ? "" : ")"));
}

}  // namespace headroom::detail
