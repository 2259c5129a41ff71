#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// `text` as one line of Markdown (CommonMark and GitHub's tables and links) that shows it and nothing else: what could be markup is
/// behind a backslash, what could steer a terminal or end the line is shown as escapes (printable_name()).
[[nodiscard]] std::string markdown_text(std::string_view text);

}  // namespace headroom
