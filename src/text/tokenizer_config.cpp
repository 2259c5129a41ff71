#include "text/tokenizer_config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "text/json_fields.hpp"

namespace headroom {
namespace {

using nlohmann::json;

constexpr std::array kRoles = {"bos_token", "eos_token", "unk_token", "sep_token",
                               "pad_token", "cls_token", "mask_token"};

/// A token that is a plain string is special, and is therefore not normalized.
AddedToken parse_special(const json& value, const std::string& context) {
  if (value.is_string()) return {.content = value.get<std::string>()};
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
  const std::optional<TokenId> known = parts.vocabulary.find(token.content);
  if (!known || *known != token.id) parts.vocabulary.add(token.content, token.id, context);
  parts.added.push_back(token);
}

TokenizerConfig TokenizerConfig::read(const std::filesystem::path& folder) {
  TokenizerConfig result;
  const auto read_roles = [&](const json& file, const std::string& context) {
    for (const char* const role : kRoles) {
      if (!file.contains(role)) continue;
      const json& value = file.at(role);
      auto& token = result.roles_[role];
      token.reset();
      if (!value.is_null()) token = parse_special(value, place(context, role));
    }
    if (!file.contains("additional_special_tokens") || file.at("additional_special_tokens").is_null()) return;
    result.additional_.clear();
    for (const json& value : get_array(file, "additional_special_tokens", context))
      result.additional_.push_back(parse_special(value, place(context, "additional_special_tokens")));
  };

  if (const auto path = folder / "tokenizer_config.json"; std::filesystem::exists(path)) {
    const json config = read_json(path);
    const std::string& context = path.native();
    result.tokenizer_class_ = get_string_or(config, "tokenizer_class", "", context);
    if (result.tokenizer_class_.ends_with("Fast")) result.tokenizer_class_.resize(result.tokenizer_class_.size() - 4);
    if (config.contains("added_tokens_decoder"))
      result.by_id_ = parse_by_id(config.at("added_tokens_decoder"), place(context, "added_tokens_decoder"));
    read_roles(config, context);
    const std::int64_t extra_ids = get_int_or(config, "extra_ids", 100, context);
    if (extra_ids < 0) fail("{}.extra_ids is {}, but 0 or more was expected", context, extra_ids);
    result.extra_ids_ = static_cast<std::size_t>(extra_ids);
    constexpr double kUnlimited = 1e9;  // written where no limit is known: 1e30
    if (const double length = get_double_or(config, "model_max_length", kUnlimited, context);
        length > 0 && length < kUnlimited)
      result.model_max_length_ = static_cast<std::size_t>(length);
    result.padding_side_ = parse_side(config, "padding_side", context);
    result.truncation_side_ = parse_side(config, "truncation_side", context);
    result.adds_prefix_space_ = get_bool_or(config, "add_prefix_space", false, context);
  }
  // Where the tokens are listed by id, nothing else is asked.
  if (const auto path = folder / "special_tokens_map.json"; !result.has_added_tokens() && std::filesystem::exists(path))
    read_roles(read_json(path), path.native());
  return result;
}

void TokenizerConfig::set_default(const std::string& role, const std::string& content) {
  roles_.try_emplace(role, AddedToken{.content = content});
}

std::optional<std::string> TokenizerConfig::content_of(const std::string& role) const {
  const auto found = roles_.find(role);
  return found != roles_.end() && found->second ? std::optional(found->second->content) : std::nullopt;
}

void TokenizerConfig::apply_to(TokenizerParts& parts, const std::string& context) const {
  const auto add_missing = [&](const AddedToken& token) {
    if (std::ranges::find(parts.added, token.content, &AddedToken::content) == parts.added.end())
      add_token(parts, token, context);
  };
  for (const AddedToken& token : by_id_) add_missing(token);
  const auto add_by_content = [&](AddedToken token) {
    token.id = parts.vocabulary.find(token.content).value_or(parts.vocabulary.size());
    add_missing(token);
  };
  for (const char* const role : kRoles)
    if (const auto found = roles_.find(role); found != roles_.end() && found->second) add_by_content(*found->second);
  for (const AddedToken& token : additional_) add_by_content(token);

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
