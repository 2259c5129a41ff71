#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A module under another name than the checkpoint's: what it gives is, in order, what `modules` give there.
struct ModuleAlias {
  std::string name;  ///< "double_blocks.0.img_attn.qkv"
  std::vector<std::string> modules;
  bool swaps_halves = false;  ///< the second half of what it gives comes first in the checkpoint
};

/// How files of adapters name the modules of a network: behind one of the prefixes, as the checkpoint or by an alias, with
/// dots or with underscores in their place.
struct AdapterNames {
  /// An end of modules' names, and another that files have for it.
  struct End {
    std::string_view name;   ///< "self_attn.q_proj"
    std::string_view other;  ///< "self_attn.to_q_lora"
  };

  std::vector<std::string_view> prefixes = {};
  std::vector<ModuleAlias> (*aliases)(const nlohmann::json& config) = nullptr;
  std::vector<End> ends = {};
  std::string_view optional_front =
      {};  ///< of modules' names, which checkpoints and files may leave out: "text_model."
};

}  // namespace headroom
