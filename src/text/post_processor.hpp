#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/tokenizer_parts.hpp"

namespace headroom {

/// What tokenizer.json's post-processor puts before and behind a text, into `parts`; `null` puts nothing. Throws Error
/// for what it does not know.
void parse_post_processor(const nlohmann::json& value, const std::string& context, TokenizerParts& parts);

}  // namespace headroom
