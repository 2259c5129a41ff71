#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// `text` as one line of Markdown (CommonMark, and GitHub's tables and links) that shows exactly the text. Possible
/// markup is escaped with a backslash; characters that could control a terminal or end the line are shown as
/// escapes (printable_name()).
[[nodiscard]] std::string markdown_text(std::string_view text);

}  // namespace headroom
