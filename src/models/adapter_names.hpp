#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A module under another name than the checkpoint's. Its output is the concatenation, in order, of the outputs of
/// `modules` in the checkpoint.
struct ModuleAlias {
  std::string name;  ///< "double_blocks.0.img_attn.qkv"
  std::vector<std::string> modules;
  bool swaps_halves = false;                            ///< the second half of its output comes first in the checkpoint
  std::string_view weight = ".weight", bias = ".bias";  ///< the ends of its params' names in authors' checkpoints
  bool is_transposed = false;                           ///< its weight is stored as [in, out]
};

/// The module names of a network in other files. In adapter files: one of the prefixes, then the checkpoint's name or
/// an alias, with dots or with underscores in place of dots. In its authors' checkpoints: the checkpoint's name or an
/// alias. A class that no adapter file names has no prefixes.
struct AdapterNames {
  /// A suffix of module names, and its spelling in adapter files.
  struct End {
    std::string_view name;   ///< "self_attn.q_proj"
    std::string_view other;  ///< "self_attn.to_q_lora"
  };

  std::vector<std::string_view> prefixes = {};
  std::vector<ModuleAlias> (*aliases)(const nlohmann::json& config) = nullptr;
  std::vector<End> ends = {};
  std::string_view optional_front = {};  ///< of module names; checkpoints and files may omit it: "text_model."
};

}  // namespace headroom
