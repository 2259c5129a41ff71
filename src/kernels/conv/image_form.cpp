#include "kernels/conv/image_form.hpp"

#include <cstdint>

namespace headroom {
namespace {

std::int64_t channels_in_vector(const OpSpec& spec) {
  constexpr std::int64_t kVectorBytes = 16;
  const DType dtype = spec.outputs[0].dtype;
  if (dtype == DType::kF32 && !spec.attributes[attr::kTf32]) return 1;
  return kVectorBytes / static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

ImageForm cpu_images(const OpSpec& spec) {
  return {.layout = Layout::kChannelsLast, .channel_multiple = channels_in_vector(spec)};
}

ImageForm cuda_images(const OpSpec& spec) {
  const std::int64_t vector = channels_in_vector(spec);
  const bool is_full = spec.input(Role::kX).shape[1] % vector == 0 && spec.outputs[0].shape[1] % vector == 0;
  return {.layout = is_full ? Layout::kChannelsLast : Layout::kRowMajor, .channel_multiple = vector};
}

}  // namespace headroom
