// The normalizers of tokenizer.json.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "text/normalizer.hpp"
#include "text/readers/json_fields.hpp"

namespace headroom {
namespace {

using nlohmann::json;

NormalizerPtr parse_normalizer_sequence(const json& value, const std::string& context) {
  check_keys(value, {"type", "normalizers"}, context);
  const json& steps = get_array(value, "normalizers", context);
  std::vector<NormalizerPtr> parsed;
  for (std::size_t i = 0; i < steps.size(); ++i)
    parsed.push_back(parse_normalizer(steps.at(i), place(place(context, "normalizers"), i)));
  return in_sequence(std::move(parsed));
}

NormalizerPtr parse_precompiled(const json& value, const std::string& context) {
  check_keys(value, {"type", "precompiled_charsmap"}, context);
  const std::string at = place(context, "precompiled_charsmap");
  return map_characters(Charsmap(decode_base64(get_string_or(value, "precompiled_charsmap", "", context), at), at));
}

}  // namespace

NormalizerPtr parse_normalizer(const json& value, const std::string& context) {
  if (value.is_null()) return in_sequence(std::vector<NormalizerPtr>{});
  const std::string type = type_of_step(value, context);
  if (type == "Sequence") return parse_normalizer_sequence(value, context);
  if (type == "Precompiled") return parse_precompiled(value, context);
  if (type == "Replace") {
    check_keys(value, {"type", "pattern", "content"}, context);
    return replace(parse_pattern(value, "pattern", context), get_string(value, "content", context));
  }
  if (type == "Strip") {
    check_keys(value, {"type", "strip_left", "strip_right"}, context);
    return strip(get_bool(value, "strip_left", context), get_bool(value, "strip_right", context));
  }
  if (type == "Prepend") {
    check_keys(value, {"type", "prepend"}, context);
    return prepend(get_string(value, "prepend", context));
  }
  check_keys(value, {"type"}, context);
  if (type == "NFC") return normal_form(NormalForm::kNfc);
  if (type == "NFD") return normal_form(NormalForm::kNfd);
  if (type == "NFKC") return normal_form(NormalForm::kNfkc);
  if (type == "NFKD") return normal_form(NormalForm::kNfkd);
  if (type == "Lowercase") return lower_case();
  fail("{} is of the type \"{}\", which is not known", context, type);
}

}  // namespace headroom
