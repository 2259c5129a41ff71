#include "io/lora_scales.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMetadata = "lora_adapter_metadata";
constexpr double kDefaultAlpha = 8;  // LoraConfig, LoHaConfig and LoKrConfig of peft 0.21
constexpr std::int64_t kDefaultRank = 8;

/// Initializations that change the base weights, so that the adapter does not fit any published model.
struct ChangedBase {
  std::string_view name;  ///< full name or prefix
  bool is_convertible;    ///< by peft, to an adapter of the original base
};
constexpr std::array kChangedBases = {ChangedBase{"pissa", true}, ChangedBase{"olora", true},
                                      ChangedBase{"corda", true}, ChangedBase{"lora_ga", true},
                                      ChangedBase{"loftq", false}};

/// Fields of variants that do more than add to weights.
constexpr std::array<std::string_view, 6> kOtherVariants = {"alora_invocation_tokens", "arrow_config", "kasa_config",
                                                            "layer_replication",       "use_bdlora",   "use_qalora"};

void refuse_changed_base(const nlohmann::json& values, const std::string& key, const std::string& context) {
  const auto found = values.find(key);
  if (found == values.end() || !found->is_string()) return;
  std::string name = found->get<std::string>();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto known =
      std::ranges::find_if(kChangedBases, [&](const ChangedBase& base) { return name.starts_with(base.name); });
  if (known == kChangedBases.end()) return;
  fail("{}: {} is '{}', which trains on changed base weights and does not fit the published model: {}", context, key,
       printable_name(found->get<std::string>()),
       known->is_convertible
           ? "convert it to a LoRA with path_initial_model_for_weight_conversion of peft's save_pretrained"
           : "merge it into the weights that it was trained on");
}

void refuse_other_variants(const nlohmann::json& values, const std::string& prefix, const std::string& context) {
  for (const std::string_view field : kOtherVariants) {
    const auto found = values.find(prefix + std::string(field));
    if (found != values.end() && !found->is_null() && *found != false)
      fail("{}: {}{} is set, which is not supported: only adapters that are added to weights are", context, prefix,
           field);
  }
}

PeftConfig::Pattern parse_pattern(const nlohmann::json& values, const std::string& key, const std::string& context) {
  PeftConfig::Pattern pattern;
  const auto found = values.find(key);
  if (found == values.end() || found->is_null()) return pattern;
  if (!found->is_object()) fail("{}: {} is no object", context, key);
  for (const auto& [name, value] : found->items()) {
    const std::string place = fmt::format("{}: {}", context, key);
    pattern.push_back({.pattern = ModulePattern(name, place), .value = get_double(*found, name, place)});
  }
  return pattern;
}

PeftConfig parse_config(const nlohmann::json& values, const std::string& prefix, std::string context) {
  const std::string type = get_string_or(values, prefix + "peft_type", "LORA", context);
  const bool is_lora = type == "LORA";
  if (!is_lora && type != "LOHA" && type != "LOKR")
    fail("{}: {}peft_type is '{}', expected LORA, LOHA or LOKR", context, prefix, printable_name(type));
  refuse_changed_base(values, prefix + "init_lora_weights", context);
  refuse_other_variants(values, prefix, context);
  PeftConfig config{.prefix = prefix};
  config.alpha = get_double_or(values, prefix + (is_lora ? "lora_alpha" : "alpha"), kDefaultAlpha, context);
  if (const auto rank = values.find(prefix + "r"); rank != values.end() && !rank->is_null()) {
    config.rank = get_int(values, prefix + "r", context);
    if (*config.rank < 1) fail("{}: {}r is {}, expected a rank of at least 1", context, prefix, *config.rank);
  }
  config.use_rslora = is_lora && get_bool_or(values, prefix + "use_rslora", false, context);
  config.use_dora = is_lora && get_bool_or(values, prefix + "use_dora", false, context);
  config.alpha_pattern = parse_pattern(values, prefix + "alpha_pattern", context);
  config.rank_pattern = parse_pattern(values, prefix + "rank_pattern", context);
  config.context = std::move(context);
  return config;
}

std::optional<double> value_of(const PeftConfig::Pattern& pattern, std::string_view module) {
  const auto first =
      std::ranges::find_if(pattern, [&](const PeftConfig::PatternValue& each) { return each.pattern.matches(module); });
  return first == pattern.end() ? std::nullopt : std::optional(first->value);
}

/// A number in a header, whose values are all text; empty for "None".
struct Stated {
  std::string_view key;
  std::string text;
  std::optional<double> number;  ///< empty for text that is not a number, such as "Dynamic"
};
std::optional<Stated> stated(const SafetensorsMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  std::string text = found->second;
  std::erase(text, ' ');
  if (text.empty() || text == "None" || text == "null") return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return Stated{.key = key, .text = std::move(text), .number = is_number ? std::optional(value) : std::nullopt};
}

constexpr std::array<std::string_view, 3> kAlphaKeys = {"lora_alpha", "alpha", "network_alpha"};
constexpr std::array<std::string_view, 6> kRankKeys = {"r", "rank", "lora_r", "lora_rank", "network_dim", "lora_dim"};

/// The value of whichever key exists; several must agree.
std::optional<Stated> any_stated(const SafetensorsMetadata& metadata, std::span<const std::string_view> keys,
                                 const std::string& path) {
  std::optional<Stated> first;
  for (const std::string_view key : keys) {
    std::optional<Stated> other = stated(metadata, key);
    if (first && other && first->number != other->number)
      fail("{}: the header's {} is '{}' and its {} '{}', expected the same", path, first->key,
           printable_name(first->text), other->key, printable_name(other->text));
    if (!first) first = std::move(other);
  }
  return first;
}

}  // namespace

double PeftConfig::scale(std::string_view module, std::optional<std::int64_t> of_factors) const {
  if (module.starts_with(prefix)) module.remove_prefix(prefix.size());
  const std::optional<double> own_rank = value_of(rank_pattern, module);
  const std::optional<double> expected = own_rank || !rank ? own_rank : std::optional(static_cast<double>(*rank));
  if (expected && of_factors && *expected != static_cast<double>(*of_factors))
    fail("{}: the rank is {} for '{}', whose factors have rank {}", context, *expected, printable_name(module),
         *of_factors);
  if (!expected && !of_factors) return 1;
  const double width = of_factors ? static_cast<double>(*of_factors) : *expected;
  return value_of(alpha_pattern, module).value_or(alpha) / (use_rslora ? std::sqrt(width) : width);
}

fs::path adapter_config_next_to(const fs::path& lora) { return lora.parent_path() / "adapter_config.json"; }

LoraScales::LoraScales(const SafetensorsFile& file, const Tensors& tensors) {
  read_header(file);
  if (configs_.empty() && !tensors.has_alphas) read_adapter_config(file, tensors);
  if (configs_.empty() && !tensors.has_alphas) read_plain(file);
  std::ranges::sort(configs_, std::ranges::greater(), [](const PeftConfig& config) { return config.prefix.size(); });
}

void LoraScales::read_header(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kMetadata);
  if (found == file.metadata().end()) return;
  const std::string context = fmt::format("{}: {}", file.path().string(), kMetadata);
  const nlohmann::json values = parse_json(found->second, context);
  if (!values.is_object()) fail("{}: expected a JSON object", context);
  std::set<std::string> prefixes;  // "transformer.r" for a pipeline, "r" for a single network
  for (const auto& [key, value] : values.items()) {
    const std::size_t dot = key.find('.');
    prefixes.insert(dot == std::string::npos ? "" : key.substr(0, dot + 1));
  }
  for (const std::string& prefix : prefixes) {
    PeftConfig config = parse_config(values, prefix, context);
    if (values.contains(prefix + "lora_alpha") || values.contains(prefix + "alpha") || config.use_dora)
      configs_.push_back(std::move(config));
  }
}

void LoraScales::read_adapter_config(const SafetensorsFile& file, const Tensors& tensors) {
  const fs::path path = adapter_config_next_to(file.path());
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  if (!tensors.has_peft_names) {
    notes_.push_back(fmt::format("{}: {} is not taken, as the file is not of PEFT: its scale is 1",
                                 file.path().string(), path.filename().string()));
    return;
  }
  const nlohmann::json values = read_json(path);
  if (!values.is_object()) fail("{}: expected a JSON object", path.string());
  PeftConfig config = parse_config(values, "", path.string());
  if (!config.rank) config.rank = kDefaultRank;
  if (file.path().filename() != "adapter_model.safetensors")
    notes_.push_back(fmt::format("{}: its rank and alpha are taken from {} in the same folder", file.path().string(),
                                 path.filename().string()));
  configs_.push_back(std::move(config));
}

void LoraScales::read_plain(const SafetensorsFile& file) {
  const std::string path = file.path().string();
  const SafetensorsMetadata& metadata = file.metadata();
  if (const auto alpha = any_stated(metadata, kAlphaKeys, path)) {
    if (!alpha->number) {
      notes_.push_back(fmt::format("{}: the header's {} is '{}', expected a number: the scale is 1", path, alpha->key,
                                   printable_name(alpha->text)));
      return;
    }
    PeftConfig config{.context = path + ": header", .alpha = *alpha->number};
    if (const auto rank = any_stated(metadata, kRankKeys, path)) {
      constexpr double kMostRank = 1 << 30;
      if (!rank->number || *rank->number < 1 || *rank->number > kMostRank || *rank->number != std::floor(*rank->number))
        fail("{}: the header's {} is '{}', expected a rank", path, rank->key, printable_name(rank->text));
      config.rank = static_cast<std::int64_t>(*rank->number);
    }
    const auto rslora = metadata.find("use_rslora");
    config.use_rslora = rslora != metadata.end() && (rslora->second == "true" || rslora->second == "True");
    configs_.push_back(std::move(config));
    return;
  }
  // sd-scripts itself uses the rank for an alpha that is missing among the tensors. Its conversions to other names
  // multiply the factors by the scale and do not change the header.
  const auto alpha = stated(metadata, "ss_network_alpha"), rank = stated(metadata, "ss_network_dim");
  if (alpha && !(rank && alpha->number && alpha->number == rank->number))
    notes_.push_back(fmt::format(
        "{}: the header's ss_network_alpha, '{}', is not taken, as no tensor holds an alpha: the scale is 1", path,
        printable_name(alpha->text)));
}

const PeftConfig* LoraScales::config_of(std::string_view module) const {
  const auto known =
      std::ranges::find_if(configs_, [&](const PeftConfig& config) { return module.starts_with(config.prefix); });
  return known == configs_.end() ? nullptr : &*known;
}

double LoraScales::scale(const std::string& module, std::optional<std::int64_t> rank) const {
  const PeftConfig* const config = config_of(module);
  return config == nullptr ? 1 : config->scale(module, rank);
}

bool LoraScales::needs_magnitude(const std::string& module) const {
  const PeftConfig* const config = config_of(module);
  return config != nullptr && config->use_dora;
}

}  // namespace headroom
