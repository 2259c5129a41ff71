#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/config.hpp"
#include "models/unets/unet.hpp"

namespace headroom {
namespace {

using namespace config;

constexpr std::size_t kMostLevels = 8;
constexpr std::int64_t kMostLayers = 64;

bool is_given(const nlohmann::json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

/// Whether each block has attention. Throws Error unless each is of one of the two types.
std::vector<bool> read_attends(const nlohmann::json& json, const char* key, std::string_view plain,
                               std::string_view attending, std::vector<bool> fallback) {
  if (!is_given(json, key)) return fallback;
  std::vector<bool> attends;
  if (json[key].is_array())
    for (const auto& type : json[key])
      if (type == plain || type == attending) attends.push_back(type == attending);
  if (attends.empty() || attends.size() != json[key].size())
    fail("config.json: {} is {}, expected a list of \"{}\" and \"{}\"", key, json[key].dump(), plain, attending);
  return attends;
}

std::array<std::int64_t, 2> read_sample_size(const nlohmann::json& json, std::array<std::int64_t, 2> fallback) {
  constexpr const char* kKey = "sample_size";
  if (!is_given(json, kKey)) return fallback;
  if (!json[kKey].is_array()) {
    const std::int64_t side = read_int(json, kKey, 0, 1, kMaxExtent);
    return {side, side};
  }
  const std::vector<std::int64_t> sides = read_ints(json, kKey, {}, 1, kMaxExtent);
  if (sides.size() != 2)
    fail("config.json: {} is {}, expected a number, or a height and a width", kKey, json[kKey].dump());
  return {sides[0], sides[1]};
}

bool read_has_mid_block(const nlohmann::json& json, std::string_view type) {
  if (json.contains("mid_block_type") && json["mid_block_type"].is_null()) return false;
  require_text(json, "mid_block_type", type);
  return true;
}

TimeNorm read_time_norm(const nlohmann::json& json) {
  const std::string norm = read_text(json, "resnet_time_scale_shift", "default");
  if (norm != "default" && norm != "scale_shift")
    fail(R"(config.json: resnet_time_scale_shift is "{}", expected "default" or "scale_shift")", norm);
  return norm == "default" ? TimeNorm::kAdd : TimeNorm::kScaleShift;
}

/// Group norms apply to the widths, and to those of concatenations with the skip connections.
void require_groups(const UNetConfig& unet) {
  for (const std::int64_t width : unet.block_out_channels)
    if (width % unet.norm_num_groups != 0)
      fail("config.json: block_out_channels is [{}], expected multiples of norm_num_groups, which is {}",
           fmt::join(unet.block_out_channels, ","), unet.norm_num_groups);
}

}  // namespace

std::vector<std::int64_t> read_by_level(const nlohmann::json& json, const char* key, std::int64_t fallback,
                                        std::size_t count, std::int64_t high) {
  if (!is_given(json, key) || !json[key].is_array()) return std::vector(count, read_int(json, key, fallback, 1, high));
  std::vector<std::int64_t> values = read_ints(json, key, {}, 1, high);
  if (values.size() != count)
    fail("config.json: {} is {}, expected one number, or {} of them, one for each of block_out_channels", key,
         json[key].dump(), count);
  return values;
}

void read_unet_config(const nlohmann::json& json, const UNetBlockTypes& types, UNetConfig& unet) {
  require_text(json, "act_fn", "silu");
  require_value(json, "mid_block_scale_factor", 1);
  require_value(json, "class_embed_type", nullptr);
  require_value(json, "num_class_embeds", nullptr);
  require_value(json, "time_embedding_dim", nullptr);

  unet.sample_size = read_sample_size(json, unet.sample_size);
  unet.in_channels = read_int(json, "in_channels", unet.in_channels, 1, kMaxExtent);
  unet.out_channels = read_int(json, "out_channels", unet.out_channels, 1, kMaxExtent);
  unet.center_input_sample = read_bool(json, "center_input_sample", unet.center_input_sample);
  unet.block_out_channels = read_ints(json, "block_out_channels", unet.block_out_channels, 2, kMaxExtent);
  const std::size_t levels = unet.levels();
  if (levels > kMostLevels)
    fail("config.json: block_out_channels is [{}], expected at most {} blocks", fmt::join(unet.block_out_channels, ","),
         kMostLevels);
  if (unet.block_out_channels.front() % 2 != 0)
    fail("config.json: block_out_channels begin with {}, expected an even number", unet.block_out_channels.front());
  unet.flip_sin_to_cos = read_bool(json, "flip_sin_to_cos", unet.flip_sin_to_cos);
  unet.freq_shift = read_int(json, "freq_shift", unet.freq_shift, 0, unet.block_out_channels.front() / 2 - 1);
  unet.layers_per_block = read_by_level(json, "layers_per_block", 2, levels, kMostLayers);
  unet.down_attends =
      read_attends(json, "down_block_types", types.down, types.down_attending, std::move(unet.down_attends));
  unet.up_attends = read_attends(json, "up_block_types", types.up, types.up_attending, std::move(unet.up_attends));
  for (const auto& [key, attends] :
       {std::pair("down_block_types", &unet.down_attends), std::pair("up_block_types", &unet.up_attends)})
    if (attends->size() != levels)
      fail("config.json: {} are {}, expected {}, one for each of block_out_channels", key, attends->size(), levels);
  std::reverse(unet.up_attends.begin(), unet.up_attends.end());  // the first decoder block belongs to the last level
  unet.has_mid_block = read_has_mid_block(json, types.mid);
  unet.downsample_padding = read_int(json, "downsample_padding", unet.downsample_padding, 0, 1);
  unet.norm_num_groups = read_int(json, "norm_num_groups", unet.norm_num_groups, 1, kMaxExtent);
  unet.norm_eps = read_double(json, "norm_eps", unet.norm_eps);
  unet.time_norm = read_time_norm(json);
  require_groups(unet);
}

void require_whole_heads(const UNetConfig& unet, std::int64_t head_dim) {
  for (std::size_t level = 0; level < unet.levels(); ++level) {
    const bool attends = unet.down_attends[level] || unet.up_attends[level] || level + 1 == unet.levels();
    if (attends && unet.block_out_channels[level] % head_dim != 0)
      fail("config.json: attention_head_dim is {}, expected a divisor of block_out_channels [{}]", head_dim,
           fmt::join(unet.block_out_channels, ","));
  }
}

}  // namespace headroom
