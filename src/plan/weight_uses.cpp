#include "plan/weight_uses.hpp"

#include <span>

#include "plan/weight_key.hpp"

namespace headroom {

Place WeightUses::place(ValueId weight, const std::shared_ptr<const PreparedKernel>& prepared, std::size_t input) {
  WeightUse use = dense(weight);
  const std::span<const PackedWeight> packed = prepared->packed_weights();
  for (std::size_t p = 0; p < packed.size(); ++p) {
    if (packed[p].input != static_cast<int>(input)) continue;
    use.layout = packed[p].layout;
    use.bytes = packed[p].bytes;
    use.packer = prepared;
    use.packed_index = p;
  }
  return place_of(std::move(use));
}

WeightUse WeightUses::dense(ValueId weight) {
  std::string& key = keys_[weight];
  if (key.empty()) key = weight_key(program_.graph, producers_, weight);
  return {.value = weight,
          .key = key,
          .layout = {},
          .bytes = program_.graph.type(weight).bytes(),
          .storage = -1,
          .packer = nullptr,
          .packed_index = 0};
}

Place WeightUses::place_of(WeightUse use) {
  const Shape strides = row_major_strides(program_.graph.type(use.value).shape);
  const auto [known, is_new] = storages_.try_emplace({use.key, use.layout}, -1);
  if (is_new) {
    known->second = use.storage = static_cast<int>(program_.storages.size());
    program_.storages.push_back({.kind = StorageKind::kWeight, .bytes = use.bytes});
    program_.weights.push_back(std::move(use));
  }
  return {.storage = known->second, .strides = strides};
}

}  // namespace headroom
