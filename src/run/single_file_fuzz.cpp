// A libFuzzer target (https://llvm.org/docs/LibFuzzer.html). The input is a list of changes to the names, shapes and
// dtypes of a golden single file. Whatever they make of it, each network either opens or is refused with an Error of
// one line. Built by cmake/fuzz.cmake; seeds are in tests/fuzz/single_files.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "io/foreign_quantization.hpp"
#include "io/tensor_source.hpp"
#include "run/single_file.hpp"

namespace {

using namespace headroom;

/// Names, shapes and dtypes alone.
class Names final : public TensorSource {
 public:
  explicit Names(std::vector<TensorSpec> tensors) : tensors_(std::move(tensors)) {}
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return tensors_; }
  [[nodiscard]] std::span<const std::byte> bytes(const TensorSpec& /*tensor*/) override { return {}; }
  [[nodiscard]] HostTensor read(const TensorSpec& tensor) override { return {tensor.dtype, {1}}; }
  void release(const TensorSpec& /*tensor*/) override {}

 private:
  std::vector<TensorSpec> tensors_;
};

/// Numbers that the input gives; zeros after its end.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool has_more() const { return !bytes_.empty(); }
  std::size_t byte() {
    if (bytes_.empty()) return 0;
    const std::size_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  /// From 0 to count - 1, from two bytes.
  std::size_t below(std::size_t count) {
    const std::size_t high = byte();
    return (high * 256 + byte()) % count;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// The tensors of all golden files, in the order of their names.
const std::vector<std::vector<TensorSpec>>& golden_files() {
  static const std::vector<std::vector<TensorSpec>> files = [] {
    std::vector<std::vector<TensorSpec>> found;
    for (const std::filesystem::path& path : list_folder(HEADROOM_GOLDENS))
      found.push_back(open_weights_file(path)->tensors());
    return found;
  }();
  return files;
}

constexpr std::int64_t kExtents[] = {0, 1, 2, 3, 4, 16, 64, 320, 768, 1024, 2048, 1 << 20, std::int64_t{1} << 40};
constexpr std::string_view kPrefixes[] = {"model.diffusion_model.",
                                          "first_stage_model.",
                                          "vae.",
                                          "cond_stage_model.transformer.",
                                          "text_encoders.t5xxl.transformer.",
                                          "conditioner.embedders.1.model."};
constexpr std::string_view kAdded[] = {"v_pred",
                                       "ztsnr",
                                       "scaled_fp8",
                                       "label_emb.0.0.weight",
                                       "guidance_in.in_layer.weight",
                                       "ref_time_in.in_layer.weight",
                                       "output_blocks.11.1.transformer_blocks.0.norm1.bias"};

/// One change; `tensors` is not empty.
void change(std::vector<TensorSpec>& tensors, Input& input) {
  enum { kInsert, kErase, kExtent, kRank, kDType, kDrop, kCopy, kScale, kPrefix, kAdd, kChanges };
  const std::size_t what = input.byte() % kChanges;
  const std::size_t at = input.below(tensors.size());
  TensorSpec& tensor = tensors[at];
  std::string& name = tensor.name;
  if (what == kInsert) name.insert(input.below(name.size() + 1), 1, "0129.w"[input.byte() % 6]);
  if (what == kErase && !name.empty()) name.erase(input.below(name.size()), 1 + input.byte() % 4);
  if (what == kExtent && tensor.shape.rank() > 0)
    tensor.shape.set(static_cast<int>(input.byte() % static_cast<std::size_t>(tensor.shape.rank())),
                     kExtents[input.byte() % std::size(kExtents)]);
  if (what == kRank) {
    Shape shape;
    for (std::size_t rank = input.byte() % 6; rank > 0; --rank)
      shape.push_back(kExtents[input.byte() % std::size(kExtents)]);
    tensor.shape = shape;
  }
  if (what == kDType) {
    constexpr std::array kDTypes = {DType::kF8E4M3, DType::kF8E5M2, DType::kI8, DType::kI64, DType::kF16, DType::kBF16};
    tensor.dtype = kDTypes[input.byte() % kDTypes.size()];
  }
  if (what == kDrop) tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(at));
  if (what == kCopy) {  // under another number, as of one layer more
    TensorSpec copy = tensor;
    if (const std::size_t digit = copy.name.find_first_of("0123456789"); digit != std::string::npos)
      copy.name.replace(digit, 1, std::to_string(input.byte() % 100));
    tensors.push_back(std::move(copy));
  }
  if (what == kScale) {
    constexpr std::string_view kEnds[] = {".scale_weight", ".weight_scale", ".scale_input", ".input_scale", ".SCB"};
    TensorSpec scale{name.substr(0, name.rfind('.')), DType::kF32, input.byte() % 2 == 0 ? Shape{} : Shape{1}};
    scale.name += kEnds[input.byte() % std::size(kEnds)];
    tensors.push_back(std::move(scale));
  }
  if (what == kPrefix) {
    const std::string prefix(kPrefixes[input.byte() % std::size(kPrefixes)]);
    for (TensorSpec& each : tensors) each.name = prefix + each.name;
  }
  if (what == kAdd)
    tensors.push_back({std::string(kAdded[input.byte() % std::size(kAdded)]),
                       DType::kF32,
                       {kExtents[input.byte() % std::size(kExtents)], kExtents[input.byte() % std::size(kExtents)]}});
}

/// Whether a file could hold it: readers refuse headers with more elements.
bool is_possible(const TensorSpec& tensor) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape.dims()) {
    if (extent != 0 && elements > kMost / extent) return false;
    elements *= extent;
  }
  return true;
}

void require_one_line(const Error& error) {
  const std::string_view message = error.what();
  HR_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer asks for this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input({data, size});
  std::vector<TensorSpec> tensors = golden_files()[input.byte() % golden_files().size()];
  while (input.has_more() && !tensors.empty()) change(tensors, input);
  // As in a file, a name is that of one tensor.
  std::map<std::string, TensorSpec> named;
  for (TensorSpec& tensor : tensors)
    if (is_possible(tensor)) named.emplace(tensor.name, tensor);
  tensors.clear();
  for (auto& [name, tensor] : named) tensors.push_back(std::move(tensor));
  try {
    refuse_foreign_tensors("input", nullptr, tensors, {});
  } catch (const Error& error) {
    require_one_line(error);
  }
  try {
    const SingleFile file = SingleFile::of("input", std::make_shared<Names>(std::move(tensors)));
    if (file.family() != nullptr) HR_CHECK(file.scheduler().contains("_class_name"));
    for (const SingleFile::Network& network : file.networks()) {
      OpenOptions tiny;  // what the golden files have otherwise than published ones
      if (network.class_name == "UNet2DConditionModel" || network.role == "vae") tiny.config = {{"norm_num_groups", 4}};
      if (network.class_name == "FluxTransformer2DModel") tiny.config = {{"axes_dims_rope", {4, 2, 6}}};
      try {
        const Component component = file.component(network, tiny);
        HR_CHECK(component.kind != nullptr && !component.checkpoint.tensors().empty());
      } catch (const Error& error) {
        require_one_line(error);
      }
    }
  } catch (const Error& error) {
    require_one_line(error);
  }
  return 0;
}
