#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/component.hpp"

/// Code shared by the text encoders of transformers.
namespace headroom::text_encoder {

/// The value added to the score of a masked key: the lowest number of f16, the lowest-precision dtype for scores. Its
/// exponential is 0 in all of them.
inline constexpr double kUnseen = -65504;

/// The op for the activation `name` ("gelu_new"), the value of config[key] in transformers' naming. Throws Error that
/// names the key, the config's value and the known activations.
[[nodiscard]] Op activation_named(const nlohmann::json& config, const char* key, const std::string& name);

/// The shape of `input_ids`, [batch, tokens], with at most `most` tokens. Throws a usage Error for more.
[[nodiscard]] InputShapes id_shapes(const PassSize& size, std::int64_t most);
/// Adds the input of token ids, i32, in its given shape. Throws Error unless that is [batch, tokens] with at most
/// `most` tokens.
ValueId add_ids(Graph& graph, const InputShapes& given, std::int64_t most);

/// [tokens, tokens]: 0 for keys up to the query's own position, kUnseen after it.
[[nodiscard]] ValueId causal_bias(Builder& builder, std::int64_t tokens, DType dtype);

}  // namespace headroom::text_encoder
