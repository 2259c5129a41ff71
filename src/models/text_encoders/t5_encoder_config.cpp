#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/text_encoders/t5_encoder.hpp"
#include "models/text_encoders/text_encoder.hpp"

namespace headroom {

T5Config parse_t5_config(const nlohmann::json& json) {
  using namespace config;
  require_class(json, kT5Encoder);
  T5Config t5;
  t5.vocab_size = read_int(json, "vocab_size", t5.vocab_size, 1, kMaxExtent);
  t5.d_model = read_int(json, "d_model", t5.d_model, 1, kMaxExtent);
  t5.d_kv = read_int(json, "d_kv", t5.d_kv, 1, kMaxExtent);
  t5.d_ff = read_int(json, "d_ff", t5.d_ff, 1, kMaxExtent);
  t5.num_layers = read_int(json, "num_layers", t5.num_layers, 1, kMaxLayers);
  t5.num_heads = read_int(json, "num_heads", t5.num_heads, 1, kMaxLayers);
  if (t5.inner_dim() > kMaxExtent)
    fail("config.json: num_heads times d_kv is {}, expected {} at most", t5.inner_dim(), kMaxExtent);
  std::int64_t& buckets = t5.relative_attention_num_buckets;
  buckets = read_int(json, "relative_attention_num_buckets", buckets, 4, kMaxExtent);
  std::int64_t& distance = t5.relative_attention_max_distance;  // beyond that of the last bucket with a single distance
  distance = read_int(json, "relative_attention_max_distance", distance, buckets / 4 + 1, kMaxExtent);
  t5.layer_norm_epsilon = read_double(json, "layer_norm_epsilon", t5.layer_norm_epsilon);

  constexpr std::string_view kGated = "gated-";
  std::string projection = read_text(json, "feed_forward_proj", "relu");
  t5.is_gated = projection.starts_with(kGated);
  // the name in T5 v1.1; transformers maps it to gelu_new, too
  if (projection == "gated-gelu") projection = "gated-gelu_new";
  if (t5.is_gated) projection.erase(0, kGated.size());
  t5.activation = text_encoder::activation_named(json, "feed_forward_proj", projection);
  return t5;
}

nlohmann::json t5_xxl_config() {
  return {{"architectures", {kT5Encoder}},
          {"vocab_size", 32128},
          {"d_model", 4096},
          {"d_kv", 64},
          {"d_ff", 10240},
          {"num_layers", 24},
          {"num_heads", 64},
          {"feed_forward_proj", "gated-gelu"}};
}

}  // namespace headroom
