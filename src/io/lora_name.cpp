#include "io/lora_name.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom {
namespace {

struct Ending {
  std::string_view text;
  LoraPart part;
};

/// Complete suffixes of names, the longer ones first.
constexpr std::array kEnds = {
    Ending{".lora_linear_layer.down.weight", LoraPart::kDown},
    Ending{".lora_linear_layer.up.weight", LoraPart::kUp},
    Ending{".lora.down.weight", LoraPart::kDown},
    Ending{".lora.up.weight", LoraPart::kUp},
    Ending{".down.weight", LoraPart::kDown},
    Ending{".up.weight", LoraPart::kUp},
    Ending{".dora_scale", LoraPart::kDoraScale},
    Ending{".alpha", LoraPart::kAlpha},
    Ending{".diff_b", LoraPart::kBiasDifference},
    Ending{".diff", LoraPart::kDifference},
    Ending{".b_norm", LoraPart::kBiasDifference},
    Ending{".w_norm", LoraPart::kDifference},
};

/// Gains of norms, which files of Black Forest Labs store complete: these suffixes without ".scale" are modules.
constexpr std::string_view kScale = ".scale";
constexpr std::array<std::string_view, 2> kGains = {".query_norm.scale", ".key_norm.scale"};

/// Names of factors, optionally followed by an adapter's name and ".weight".
struct Factor {
  std::string_view text;
  LoraPart part;
  bool is_peft;
};
constexpr std::array kFactors = {
    Factor{".lora_A", LoraPart::kDown, true},       Factor{".lora_B", LoraPart::kUp, true},
    Factor{".lora_down", LoraPart::kDown, false},   Factor{".lora_up", LoraPart::kUp, false},
    Factor{".lora_mid", LoraPart::kMid, false},     Factor{".lora_magnitude_vector", LoraPart::kMagnitude, true},
    Factor{".hada_w1_a", LoraPart::kHadaW1A, true}, Factor{".hada_w1_b", LoraPart::kHadaW1B, true},
    Factor{".hada_t1", LoraPart::kHadaT1, true},    Factor{".hada_w2_a", LoraPart::kHadaW2A, true},
    Factor{".hada_w2_b", LoraPart::kHadaW2B, true}, Factor{".hada_t2", LoraPart::kHadaT2, true},
    Factor{".lokr_w1", LoraPart::kLokrW1, true},    Factor{".lokr_w1_a", LoraPart::kLokrW1A, true},
    Factor{".lokr_w1_b", LoraPart::kLokrW1B, true}, Factor{".lokr_w2", LoraPart::kLokrW2, true},
    Factor{".lokr_w2_a", LoraPart::kLokrW2A, true}, Factor{".lokr_w2_b", LoraPart::kLokrW2B, true},
    Factor{".lokr_t2", LoraPart::kLokrT2, true},
};

struct OtherKind {
  std::string_view mark;
  std::string_view kind;
};
constexpr std::array kOtherKinds = {
    OtherKind{"boft_", "BOFT"},
    OtherKind{"oft_", "OFT"},
    OtherKind{"glora_", "GLoRA"},
    OtherKind{"vera_lambda", "VeRA"},
    OtherKind{"ia3_", "IA3"},
    OtherKind{"lora_E", "AdaLoRA"},
    OtherKind{"lora_embedding_", "LoRA of an embedding"},
};

/// Names, or their prefixes, of embeddings of CLIP's and T5's textual inversions that are stored with factors.
constexpr std::array<std::string_view, 4> kEmbeddings = {"clip_l", "clip_g", "t5", "emb_params"};
constexpr std::string_view kBundled = "bundle_emb.";

bool cut_end(std::string_view& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

/// "unet.x.lora_A", optionally followed by an adapter's name.
std::optional<LoraTensorName> parse_factor(std::string_view name) {
  const auto named = [](std::string_view text, std::string_view adapter) -> std::optional<LoraTensorName> {
    for (const Factor& factor : kFactors)
      if (text.ends_with(factor.text))
        return LoraTensorName{.module = std::string(text.substr(0, text.size() - factor.text.size())),
                              .part = factor.part,
                              .adapter = std::string(adapter),
                              .is_peft = factor.is_peft};
    return std::nullopt;
  };
  if (auto plain = named(name, "")) return plain;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return std::nullopt;
  return named(name.substr(0, dot), name.substr(dot + 1));
}

/// Prefixes of wrapped modules, at the beginning of a name or after the pipeline's component.
constexpr std::array<std::string_view, 2> kWrappers = {"base_model.model.", "_orig_mod."};

std::string without_wrappers(std::string name) {
  for (const std::string_view wrapper : kWrappers)
    for (std::size_t at = name.find(wrapper); at != std::string::npos; at = name.find(wrapper, at))
      if (at == 0 || name[at - 1] == '.')
        name.erase(at, wrapper.size());
      else
        at += wrapper.size();
  return name;
}

/// The parts of a name, with the module as in the file.
std::optional<LoraTensorName> parse(std::string_view name) {
  for (const Ending& end : kEnds)
    if (std::string_view module = name; cut_end(module, end.text))
      return LoraTensorName{.module = std::string(module), .part = end.part};
  for (const std::string_view gain : kGains)
    if (name.ends_with(gain))
      return LoraTensorName{.module = std::string(name.substr(0, name.size() - kScale.size())),
                            .part = LoraPart::kValue};
  const bool is_bias = cut_end(name, ".bias");
  if (!is_bias) cut_end(name, ".weight");
  std::optional<LoraTensorName> factor = parse_factor(name);
  if (!is_bias || !factor) return factor;
  if (!factor->is_peft || factor->part != LoraPart::kUp) return std::nullopt;  // the bias belongs to lora_B
  factor->part = LoraPart::kBias;
  return factor;
}

}  // namespace

std::optional<LoraTensorName> parse_lora_name(std::string_view name) {
  std::optional<LoraTensorName> parsed = parse(name);
  if (parsed) parsed->module = without_wrappers(std::move(parsed->module));
  return parsed;
}

std::string_view unsupported_adapter(std::string_view name) {
  const auto known =
      std::ranges::find_if(kOtherKinds, [&](const OtherKind& other) { return name.find(other.mark) != name.npos; });
  return known == kOtherKinds.end() ? std::string_view() : known->kind;
}

bool is_bundled_embedding(std::string_view name) {
  return name.starts_with(kBundled) || std::ranges::find(kEmbeddings, name) != kEmbeddings.end();
}

}  // namespace headroom
