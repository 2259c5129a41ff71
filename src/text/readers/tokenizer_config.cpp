#include "text/readers/tokenizer_config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "text/readers/json_fields.hpp"

namespace headroom {
namespace {

using nlohmann::json;

constexpr std::array kRoles = {"bos_token", "eos_token", "unk_token", "sep_token",
                               "pad_token", "cls_token", "mask_token"};

/// A token given as a plain string is special, and therefore not normalized. An empty string is no token.
std::optional<AddedToken> parse_special(const json& value, const std::string& context) {
  if (value.is_null() || value == "") return std::nullopt;
  if (value.is_string()) return AddedToken{.content = value.get<std::string>()};
  return parse_added_token(value, context);
}

Side parse_side(const json& config, const char* key, const std::string& context) {
  const std::string side = get_string_or(config, key, "right", context);
  if (side != "left" && side != "right") fail("{}.{} is \"{}\", but left or right was expected", context, key, side);
  return side == "left" ? Side::kLeft : Side::kRight;
}

std::vector<AddedToken> parse_by_id(const json& decoder, const std::string& context) {
  if (!decoder.is_object()) fail("{} is {}, but an object was expected", context, decoder.type_name());
  std::vector<AddedToken> tokens;
  for (const auto& [key, value] : decoder.items()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      fail("{} has the key \"{}\", but an id was expected", context, key);
    tokens.push_back(parse_added_token(value, place(context, key)));
    tokens.back().id = get_token_id(id, place(context, key));
  }
  std::ranges::sort(tokens, {}, &AddedToken::id);
  return tokens;
}

}  // namespace

AddedToken parse_added_token(const json& value, const std::string& context) {
  check_keys(value, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"}, context);
  if (get_bool_or(value, "single_word", false, context))
    fail("{}.single_word is true, which is not supported", context);
  const std::string content = get_string(value, "content", context);
  if (content.empty()) fail("{}.content is empty", context);
  return {.content = content,
          .strips_left = get_bool_or(value, "lstrip", false, context),
          .strips_right = get_bool_or(value, "rstrip", false, context),
          .is_normalized = get_bool_or(value, "normalized", !get_bool_or(value, "special", false, context), context)};
}

void add_token(TokenizerParts& parts, const AddedToken& token, const std::string& context) {
  check_searched_length(token.content, context);
  const std::optional<TokenId> known = parts.vocabulary.find(token.content);
  if (!known || *known != token.id) parts.vocabulary.add(token.content, token.id, context);
  parts.added.push_back(token);
}

void TokenizerConfig::read_special_tokens(const json& file, const std::string& context) {
  for (const char* const role : kRoles)
    if (file.contains(role)) roles_[role] = parse_special(file.at(role), place(context, role));
  // transformers 5 writes the first of these names, older versions the second.
  for (const char* const key : {"extra_special_tokens", "additional_special_tokens"}) {
    if (!file.contains(key) || file.at(key).is_null()) continue;
    if (!file.at(key).is_array() && !file.at(key).is_object())
      fail("{} is {}, but an array was expected", place(context, key), file.at(key).type_name());
    std::vector<AddedToken> tokens;  // the values, if each has a name
    for (const json& value : file.at(key))
      if (auto token = parse_special(value, place(context, key))) tokens.push_back(std::move(*token));
    const bool is_empty = tokens.empty();
    additional_ = std::move(tokens);
    if (!is_empty) break;
  }
}

void TokenizerConfig::read_config(const json& config, const std::string& context) {
  set_default_class(get_string_or(config, "tokenizer_class", "", context));
  if (config.contains("added_tokens_decoder") && !config.at("added_tokens_decoder").is_null()) {
    lists_added_tokens_ = true;
    by_id_context_ = place(context, "added_tokens_decoder");
    by_id_ = parse_by_id(config.at("added_tokens_decoder"), by_id_context_);
  }
  read_special_tokens(config, context);
  constexpr std::int64_t kMostExtraIds = 10'000;
  const std::int64_t extra_ids = get_int_or(config, "extra_ids", 100, context);
  if (extra_ids < 0 || extra_ids > kMostExtraIds)
    fail("{}.extra_ids is {}, but 0 to {} was expected", context, extra_ids, kMostExtraIds);
  extra_ids_ = static_cast<std::size_t>(extra_ids);
  constexpr double kUnlimited = 1e9;  // 1e30 is written if no limit is known
  if (const double length = get_double_or(config, "model_max_length", kUnlimited, context);
      length > 0 && length < kUnlimited)
    model_max_length_ = static_cast<std::size_t>(length);
  padding_side_ = parse_side(config, "padding_side", context);
  truncation_side_ = parse_side(config, "truncation_side", context);
  adds_prefix_space_ = get_bool_or(config, "add_prefix_space", false, context);
}

/// {"<cat-toy>": 49408}. A token that is also named as special is special; the others are searched in the
/// normalized text.
void TokenizerConfig::read_added_tokens(const json& file, const std::string& context) {
  std::set<std::string> special;
  for (const auto& [role, token] : roles_)
    if (token) special.insert(token->content);
  if (additional_)
    for (const AddedToken& token : *additional_) special.insert(token.content);
  by_id_context_ = context;
  for (const auto& [content, id] : file.items()) {
    if (content.empty()) fail("{} has an empty token", context);
    by_id_.push_back({.content = content,
                      .id = get_token_id(id, place(context, content)),
                      .is_normalized = !special.contains(content)});
  }
  std::ranges::sort(by_id_, {}, &AddedToken::id);
}

TokenizerConfig TokenizerConfig::read(const std::filesystem::path& folder) {
  TokenizerConfig result;
  const auto read_if_there = [&](const char* name, auto read) {
    const auto path = folder / name;
    if (!std::filesystem::exists(path)) return;
    const json file = read_json(path);
    if (!file.is_object()) fail("{} is {}, but an object was expected", path.native(), file.type_name());
    (result.*read)(file, path.native());
  };
  read_if_there("tokenizer_config.json", &TokenizerConfig::read_config);
  if (result.lists_added_tokens_) return result;
  read_if_there("special_tokens_map.json", &TokenizerConfig::read_special_tokens);
  read_if_there("added_tokens.json", &TokenizerConfig::read_added_tokens);
  return result;
}

void TokenizerConfig::set_default_class(std::string_view name) {
  if (!tokenizer_class_.empty()) return;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  tokenizer_class_ = name;
}

void TokenizerConfig::set_default_additional(const std::vector<std::string>& contents) {
  if (additional_) return;
  additional_.emplace();
  for (const std::string& content : contents) additional_->push_back({.content = content});
}

void TokenizerConfig::set_default(const std::string& role, const std::string& content) {
  roles_.try_emplace(role, AddedToken{.content = content});
}

std::optional<std::string> TokenizerConfig::content_of(const std::string& role) const {
  const auto found = roles_.find(role);
  return found != roles_.end() && found->second ? std::optional(found->second->content) : std::nullopt;
}

void TokenizerConfig::apply_to(TokenizerParts& parts, const std::string& context) const {
  std::set<std::string> added;
  for (const AddedToken& token : parts.added) added.insert(token.content);
  const auto add_missing = [&](const AddedToken& token, const std::string& at) {
    if (added.insert(token.content).second) add_token(parts, token, at);
  };
  for (const AddedToken& token : by_id_) add_missing(token, by_id_context_);
  const auto add_by_content = [&](AddedToken token) {
    token.id = parts.vocabulary.find(token.content).value_or(parts.vocabulary.size());
    add_missing(token, context);
  };
  for (const char* const role : kRoles)
    if (const auto found = roles_.find(role); found != roles_.end() && found->second) add_by_content(*found->second);
  if (additional_)
    for (const AddedToken& token : *additional_) add_by_content(token);

  const auto id_of = [&](const std::string& role) -> std::optional<TokenId> {
    const std::optional<std::string> content = content_of(role);
    return content ? parts.vocabulary.find(*content) : std::nullopt;
  };
  parts.special = {.begin = id_of("bos_token"),
                   .end = id_of("eos_token"),
                   .padding = id_of("pad_token"),
                   .unknown = id_of("unk_token")};
  parts.model_max_length = model_max_length_;
  parts.padding_side = padding_side_;
  parts.truncation_side = truncation_side_;
}

}  // namespace headroom
