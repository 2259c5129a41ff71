#include "text/post_processor.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"
#include "text/json_fields.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// ["</s>", 1]
TokenId id_of_pair(const json& value, const std::string& context) {
  if (!value.is_array() || value.size() != 2) fail("{} is not a token and its id", context);
  return get_token_id(value[1], context);
}

/// {"A": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}
std::vector<TokenId> ids_of_special(const json& special_tokens, const std::string& name, const std::string& context) {
  std::vector<TokenId> ids;
  const json& special = get(special_tokens, name, context);
  for (const json& id : get_array(special, "ids", context)) ids.push_back(get_token_id(id, context));
  return ids;
}

/// A processor of a sequence goes around what those before it put.
void put_around(TokenizerParts& parts, const std::vector<TokenId>& before, const std::vector<TokenId>& behind) {
  parts.before.insert(parts.before.begin(), before.begin(), before.end());
  parts.behind.insert(parts.behind.end(), behind.begin(), behind.end());
}

void parse_template(const json& value, const std::string& context, TokenizerParts& parts) {
  check_keys(value, {"type", "single", "pair", "special_tokens"}, context);
  const std::string at = place(context, "single");
  std::vector<TokenId> before;
  std::vector<TokenId> behind;
  bool is_behind = false;
  for (const json& piece : get_array(value, "single", context)) {
    check_keys(piece, {"Sequence", "SpecialToken"}, at);
    if (piece.contains("Sequence")) {
      if (is_behind || get_string(piece.at("Sequence"), "id", at) != "A") fail("{} is not one text", at);
      is_behind = true;
      continue;
    }
    const std::string name = get_string(get(piece, "SpecialToken", at), "id", at);
    const std::vector<TokenId> ids =
        ids_of_special(get(value, "special_tokens", context), name, place(context, "special_tokens"));
    std::vector<TokenId>& side = is_behind ? behind : before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!is_behind) fail("{} has no place for the text", at);
  put_around(parts, before, behind);
}

}  // namespace

void parse_post_processor(const json& value, const std::string& context, TokenizerParts& parts) {
  if (value.is_null()) return;
  const std::string type = type_of_step(value, context);
  if (type == "TemplateProcessing") {
    parse_template(value, context, parts);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    check_keys(value, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}, context);
    put_around(parts, {id_of_pair(get(value, "cls", context), place(context, "cls"))},
               {id_of_pair(get(value, "sep", context), place(context, "sep"))});
  } else if (type == "ByteLevel") {
    check_keys(value, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, context);  // offsets, not ids
  } else if (type == "Sequence") {
    check_keys(value, {"type", "processors"}, context);
    const json& steps = get_array(value, "processors", context);
    for (std::size_t i = 0; i < steps.size(); ++i)
      parse_post_processor(steps[i], place(place(context, "processors"), i), parts);
  } else {
    fail("{} is of the type \"{}\", which is not known", context, type);
  }
}

}  // namespace headroom
