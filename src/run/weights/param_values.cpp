#include "run/weights/param_values.hpp"

#include <utility>

#include "base/error.hpp"
#include "ir/param_name.hpp"

namespace headroom {

void ParamValues::add(std::string name, const Checkpoint& checkpoint) {
  if (name.find(kAfterCheckpoint) != std::string::npos)
    fail("'{}' cannot be a checkpoint's name: it ends at '{}' in the names of params", name, kAfterCheckpoint);
  const auto [known, is_new] = checkpoints_.try_emplace(std::move(name), &checkpoint);
  if (!is_new) fail("there is a checkpoint called '{}' already: {}", known->first, known->second->description());
}

/// A tensor of the checkpoint without a name may contain the separator of names in its own name.
ParamValues::Tensor ParamValues::find(const std::string& param) const {
  const ParamName name = split_param_name(param);
  Tensor tensor;
  if (const auto named = checkpoints_.find(name.checkpoint); named != checkpoints_.end()) {
    const Checkpoint& checkpoint = *named->second;
    tensor = {.checkpoint = &checkpoint, .name = name.tensor, .description = checkpoint.description()};
    if (!named->first.empty()) tensor.description = fmt::format("{} ({})", named->first, checkpoint.description());
  } else if (const auto unnamed = checkpoints_.find(""); unnamed != checkpoints_.end()) {
    const Checkpoint& checkpoint = *unnamed->second;
    tensor = {.checkpoint = &checkpoint, .name = param, .description = checkpoint.description()};
  } else {
    fail("there is no checkpoint {}, which the param '{}' is of",
         name.checkpoint.empty() ? "without a name" : fmt::format("called '{}'", name.checkpoint), param);
  }
  if (!tensor.checkpoint->has(tensor.name))
    fail("{} has no tensor '{}', which the model needs", tensor.description, tensor.name);
  return tensor;
}

void ParamValues::refuse_blocks(const Tensor& tensor) {
  if (const BlockFormat* const format = tensor.checkpoint->block_format(tensor.name))
    fail("{}: tensor '{}' is stored in blocks of {}, which cannot be replaced", tensor.description, tensor.name,
         format->name);
}

void ParamValues::require(const std::string& param, DType dtype, const Shape& shape) const {
  const Tensor tensor = find(param);
  const TensorSpec& spec = tensor.checkpoint->entry(tensor.name);
  if (const BlockFormat* const format = tensor.checkpoint->block_format(tensor.name); format && dtype == DType::kU8) {
    const Shape blocks{spec.shape[0], spec.shape.numel() / spec.shape[0] / format->elements, format->bytes};
    if (!(shape == blocks))
      fail("{}: tensor '{}' is {} in {}, expected {}{}", tensor.description, tensor.name, blocks, format->name, dtype,
           shape);
    return;
  }
  if (spec.dtype != dtype || !(spec.shape == shape))
    fail("{}: tensor '{}' is {}{}, expected {}{}", tensor.description, tensor.name, spec.dtype, spec.shape, dtype,
         shape);
}

void ParamValues::change(const std::string& param, HostTensor value) {
  const Tensor tensor = find(param);
  refuse_blocks(tensor);
  const TensorSpec& spec = tensor.checkpoint->entry(tensor.name);
  if (value.dtype() != spec.dtype || !(value.shape() == spec.shape))
    fail("{}: tensor '{}' is {}{} and cannot become {}{}", tensor.description, tensor.name, spec.dtype, spec.shape,
         value.dtype(), value.shape());
  changed_.insert_or_assign(param, std::move(value));
}

void ParamValues::restore(const std::string& param) {
  (void)find(param);
  changed_.erase(param);
}

void ParamValues::set_updates(ParamUpdates updates) {
  for (const auto& [param, update] : updates) {
    const Tensor tensor = find(param);
    const TensorSpec& spec = tensor.checkpoint->entry(tensor.name);
    if (update.value != nullptr) refuse_blocks(tensor);
    if (update.value != nullptr && (update.value->dtype() != spec.dtype || !(update.value->shape() == spec.shape)))
      fail("{}: tensor '{}' is {}{} and cannot become {}{}", tensor.description, tensor.name, spec.dtype, spec.shape,
           update.value->dtype(), update.value->shape());
    for (const ParamTerm& term : update.terms) {
      if (term.magnitude && spec.shape.rank() != 2) refuse_blocks(tensor);
      if (const std::string obstacle = term.obstacle(spec.dtype, spec.shape); !obstacle.empty())
        fail("{}: nothing can be added to tensor '{}' like this: {}", tensor.description, tensor.name, obstacle);
    }
  }
  updates_ = std::move(updates);
}

const ParamUpdate* ParamValues::update(std::string_view param) const {
  const auto found = updates_.find(param);
  return found == updates_.end() ? nullptr : &found->second;
}

const HostTensor* ParamValues::replacement(const std::string& param) const {
  if (const ParamUpdate* known = update(param); known != nullptr && known->value != nullptr) return known->value.get();
  const auto changed = changed_.find(param);
  return changed == changed_.end() ? nullptr : &changed->second;
}

std::optional<NormalStream> ParamValues::normal_stream(const std::string& param) const {
  if (replacement(param) != nullptr) return std::nullopt;
  const Tensor tensor = find(param);
  return tensor.checkpoint->normal_stream(tensor.name);
}

std::span<const std::byte> ParamValues::bytes(const std::string& param, DType dtype) const {
  if (const HostTensor* other = replacement(param)) return other->bytes();
  const Tensor tensor = find(param);
  if (dtype == DType::kU8 && tensor.checkpoint->block_format(tensor.name) != nullptr)
    return tensor.checkpoint->blocks(tensor.name);
  return tensor.checkpoint->bytes(tensor.name);
}

std::optional<std::span<const std::byte>> ParamValues::device_bytes(const std::string& param) const {
  if (replacement(param) != nullptr) return std::nullopt;
  const Tensor tensor = find(param);
  return tensor.checkpoint->device_bytes(tensor.name);
}

bool ParamValues::is_freed(const std::string& param) const {
  const Tensor tensor = find(param);
  return tensor.checkpoint->is_freed(tensor.name);
}

void ParamValues::finish(const std::string& param) const {
  const Tensor tensor = find(param);
  tensor.checkpoint->finish(tensor.name);
}

void ParamValues::release(const std::string& param) const {
  if (replacement(param) != nullptr) return;
  const Tensor tensor = find(param);
  tensor.checkpoint->release(tensor.name);
}

}  // namespace headroom
