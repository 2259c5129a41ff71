#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/component.hpp"

/// What text encoders of transformers share.
namespace headroom::text_encoder {

/// What is added to the score of a key that is not seen: the lowest number of f16, the narrowest dtype that scores are
/// computed in. Its power is 0 in all of them.
inline constexpr double kUnseen = -65504;

/// The op of the activation that config[key] names as transformers does ("gelu_new"), `name` standing there. Throws
/// Error that names the key, the config's value and those that are known.
[[nodiscard]] Op activation_named(const nlohmann::json& config, const char* key, const std::string& name);

/// `input_ids` [batch, tokens], of at most `most` tokens. Throws a usage Error for more.
[[nodiscard]] InputShapes id_shapes(const PassSize& size, std::int64_t most);
/// The input of token ids in the shape that is given for it, i32. Throws Error unless that is [batch, tokens] with at
/// most `most` tokens.
ValueId add_ids(Graph& graph, const InputShapes& given, std::int64_t most);

}  // namespace headroom::text_encoder
