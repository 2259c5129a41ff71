#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "base/tensors/random.hpp"
#include "io/safetensors.hpp"
#include "io/tensor_source.hpp"

namespace headroom {

/// A model's configuration and weights: a folder in diffusers layout, or random weights that replace it. Weights
/// are mapped or generated on demand. Thread-safe, except for release() of a tensor that another thread is still
/// reading.
class Checkpoint {
 public:
  /// Opens `folder`, or its `transformer/` or `unet/` if only that has a config.json. Weights are
  /// `diffusion_pytorch_model.safetensors` or `model.safetensors`, or the shards listed by `<name>.index.json`
  /// (tensors that it does not list are ignored). A folder with both, because it was saved twice, is read as the
  /// library of that file name does: the shards for diffusers, the whole file for transformers. Missing shards are
  /// never chosen. notes() says which were chosen. With a `variant` ("fp16") its files are read
  /// (`model.fp16.safetensors`); without one, they are read if the folder has only one variant. Without any of these,
  /// the folder's only GGUF file is opened: its tensors have the network's names, and numbers in blocks are unpacked to
  /// f32 when they are read.
  /// Throws Error for missing files (it lists the existing ones), for a broken file (it names file and tensor), and
  /// for weights in another library's quantized format (it names the library).
  [[nodiscard]] static Checkpoint open(const std::filesystem::path& folder, std::string_view variant = {});

  /// The tensors of a source, without a folder. `description` is the name in messages.
  [[nodiscard]] static Checkpoint of(nlohmann::json config, std::string description,
                                     std::shared_ptr<TensorSource> source, std::vector<std::string> notes = {});

  /// Random weights that need no files. Every tensor is normal with standard deviation 0.02, around 1 for a rank-1
  /// `*.weight` (the gain of a normalization layer) and around 0 otherwise. A tensor depends only on `seed`, its
  /// name, type and shape. Matrices of whole blocks are stored in the block `format`, if there is one.
  /// Throws Error for a dtype that is not a float, or a repeated name.
  [[nodiscard]] static Checkpoint random(nlohmann::json config, std::vector<TensorSpec> tensors, std::uint64_t seed,
                                         const BlockFormat* format = nullptr);

  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  [[nodiscard]] const nlohmann::json& config() const noexcept;
  /// The folder with config.json; empty for random weights, and for a network of a file that holds its configuration.
  [[nodiscard]] const std::filesystem::path& folder() const noexcept;
  /// The name in messages: the path of the folder or file, or "random weights (seed 7)".
  [[nodiscard]] const std::string& description() const noexcept;
  [[nodiscard]] bool is_random() const noexcept;
  /// The files of its weights; none for random weights.
  [[nodiscard]] std::vector<std::filesystem::path> files() const;

  /// Facts for the user about how the weights were found, a sentence each.
  [[nodiscard]] std::span<const std::string> notes() const noexcept;

  /// All tensors of supported types, sorted by name.
  [[nodiscard]] std::span<const TensorSpec> tensors() const noexcept;
  /// The names of tensors of unsupported types, sorted.
  [[nodiscard]] std::span<const std::string> unread() const noexcept;
  /// Whether there is such a tensor, of any type.
  [[nodiscard]] bool has(std::string_view name) const;
  /// Throws Error if there is no such tensor, or if its type is not supported; so do the functions below.
  [[nodiscard]] const TensorSpec& entry(std::string_view name) const;
  /// Whether an element takes at most two bytes in the file.
  [[nodiscard]] bool is_narrow(std::string_view name) const;
  /// The elements, row-major and possibly unaligned; valid until release(name) or the end of the checkpoint.
  [[nodiscard]] std::span<const std::byte> bytes(std::string_view name) const;
  /// The format of the blocks in which the rows of a tensor are stored; null for other tensors. All other functions
  /// are of its elements, unpacked to f32.
  [[nodiscard]] const BlockFormat* block_format(std::string_view name) const;
  /// The blocks of such a tensor, valid until release(name).
  [[nodiscard]] std::span<const std::byte> blocks(std::string_view name) const;
  /// A copy of the tensor, independent of release().
  [[nodiscard]] HostTensor read(std::string_view name) const;
  /// The generator of a random tensor, so that a device can fill it itself; empty for a tensor from a file.
  [[nodiscard]] std::optional<NormalStream> normal_stream(std::string_view name) const;
  /// As in TensorSource.
  [[nodiscard]] std::optional<std::span<const std::byte>> device_bytes(std::string_view name) const;
  [[nodiscard]] bool is_freed(std::string_view name) const;
  void finish(std::string_view name) const;
  /// Releases the memory of bytes(name), which may be requested again.
  void release(std::string_view name) const;

  [[nodiscard]] std::uint64_t total_bytes() const noexcept;
  /// The elements of all tensors but the scales of quantized weights.
  [[nodiscard]] std::int64_t parameter_count() const noexcept;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  [[nodiscard]] const TensorSpec* find(std::string_view name) const;  // null if there is no readable one
  [[nodiscard]] bool is_unread(std::string_view name) const;

  std::unique_ptr<State> state_;
};

/// The config.json of a folder. Throws Error if it cannot be read or is not a JSON object.
[[nodiscard]] nlohmann::json read_config(const std::filesystem::path& folder);
/// `folder`, its `transformer/` or its `unet/`, whichever has the config.json. Throws Error that says what exists
/// instead.
[[nodiscard]] std::filesystem::path find_config_folder(const std::filesystem::path& folder);
/// Whether the folder also has weights for Checkpoint::open().
[[nodiscard]] bool has_weights(const std::filesystem::path& folder);

/// Whether the model does not use a tensor, so that it is optional.
using IsIgnored = bool (*)(std::string_view tensor);

/// Compares names and shapes (not dtypes) with those that a model expects. Returns one sentence for each kind of
/// difference (missing, of an unsupported type, unexpected, wrong shape), with the first few names and the count;
/// empty if all match.
[[nodiscard]] std::vector<std::string> check_params(const Checkpoint& checkpoint, std::span<const TensorSpec> expected,
                                                    IsIgnored is_ignored = nullptr);

/// Throws an Error with the sentences of check_params(), if there are any.
void require_params(const Checkpoint& checkpoint, std::span<const TensorSpec> expected, IsIgnored is_ignored = nullptr);

}  // namespace headroom
