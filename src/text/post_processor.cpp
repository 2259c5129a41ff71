#include "text/post_processor.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "text/readers/json_fields.hpp"

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

/// Tokens that one processor adds before and after a text.
struct Around {
  std::vector<TokenId> before;
  std::vector<TokenId> behind;

  /// Throws Error, with `context`, if there are implausibly many.
  void append(bool is_behind, const std::vector<TokenId>& ids, const std::string& context) {
    constexpr std::size_t kMost = 256;
    std::vector<TokenId>& side = is_behind ? behind : before;
    side.insert(side.end(), ids.begin(), ids.end());
    if (before.size() + behind.size() > kMost) fail("{} puts more than {} ids around a text", context, kMost);
  }
};

/// Each processor of a sequence adds its tokens around those of the earlier ones.
void put_around(TokenizerParts& parts, const Around& around) {
  parts.before.insert(parts.before.begin(), around.before.begin(), around.before.end());
  parts.behind.insert(parts.behind.end(), around.behind.begin(), around.behind.end());
}

Around parse_template(const json& value, const std::string& context) {
  check_keys(value, {"type", "single", "pair", "special_tokens"}, context);
  const std::string at = place(context, "single");
  Around around;
  bool is_behind = false;
  for (const json& piece : get_array(value, "single", context)) {
    check_keys(piece, {"Sequence", "SpecialToken"}, at);
    if (piece.contains("Sequence")) {
      if (is_behind || get_string(piece.at("Sequence"), "id", at) != "A") fail("{} is not one text", at);
      is_behind = true;
      continue;
    }
    const std::string name = get_string(get(piece, "SpecialToken", at), "id", at);
    const json& special_tokens = get(value, "special_tokens", context);
    around.append(is_behind, ids_of_special(special_tokens, name, place(context, "special_tokens")), at);
  }
  if (!is_behind) fail("{} has no place for the text", at);
  return around;
}

}  // namespace

void parse_post_processor(const json& value, const std::string& context, TokenizerParts& parts) {
  if (value.is_null()) return;
  const std::string type = type_of_step(value, context);
  if (type == "TemplateProcessing") {
    put_around(parts, parse_template(value, context));
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    check_keys(value, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}, context);
    put_around(parts, {.before = {id_of_pair(get(value, "cls", context), place(context, "cls"))},
                       .behind = {id_of_pair(get(value, "sep", context), place(context, "sep"))}});
  } else if (type == "ByteLevel") {
    // options about offsets, not ids
    check_keys(value, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, context);
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
