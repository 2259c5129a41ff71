#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/tokenizer_parts.hpp"

namespace headroom {

/// Parses the post-processor of tokenizer.json into `parts`: the tokens to add before and after a text. `null` adds
/// none. Throws Error for unknown content.
void parse_post_processor(const nlohmann::json& value, const std::string& context, TokenizerParts& parts);

}  // namespace headroom
