// The pre-tokenizers of tokenizer.json.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/readers/json_fields.hpp"

namespace headroom {
namespace {

using nlohmann::json;

SplitBehavior parse_behavior(const std::string& name, const std::string& context) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  fail("{}.behavior is \"{}\", which is not known", context, name);
}

PrependScheme parse_scheme(const json& value, const std::string& context) {
  const std::string name = get_string_or(value, "prepend_scheme", "always", context);
  if (!get_bool_or(value, "add_prefix_space", true, context) && name != "never")
    fail("{}.add_prefix_space is false, but prepend_scheme is \"{}\"", context, name);
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  fail("{}.prepend_scheme is \"{}\", which is not known", context, name);
}

PreTokenizerPtr parse_pre_tokenizer_sequence(const json& value, const std::string& context) {
  check_keys(value, {"type", "pretokenizers"}, context);
  const json& steps = get_array(value, "pretokenizers", context);
  std::vector<PreTokenizerPtr> parsed;
  for (std::size_t i = 0; i < steps.size(); ++i)
    parsed.push_back(parse_pre_tokenizer(steps.at(i), place(place(context, "pretokenizers"), i)));
  return in_sequence(std::move(parsed));
}

}  // namespace

PreTokenizerPtr parse_pre_tokenizer(const json& value, const std::string& context) {
  if (value.is_null()) return in_sequence(std::vector<PreTokenizerPtr>{});
  const std::string type = type_of_step(value, context);
  if (type == "Sequence") return parse_pre_tokenizer_sequence(value, context);
  if (type == "Split") {
    check_keys(value, {"type", "pattern", "behavior", "invert"}, context);
    return split_words(parse_pattern(value, "pattern", context),
                       parse_behavior(get_string(value, "behavior", context), context),
                       get_bool(value, "invert", context));
  }
  if (type == "ByteLevel") {
    check_keys(value, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, context);
    return byte_level({.add_prefix_space = get_bool(value, "add_prefix_space", context),
                       .split = get_bool_or(value, "use_regex", true, context)});
  }
  if (type == "Metaspace") {
    check_keys(value, {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}, context);
    return metaspace(get_string(value, "replacement", context), parse_scheme(value, context),
                     get_bool_or(value, "split", true, context));
  }
  if (type == "WhitespaceSplit") {
    check_keys(value, {"type"}, context);
    return split_white_space();
  }
  fail("{} is of the type \"{}\", which is not known", context, type);
}

}  // namespace headroom
