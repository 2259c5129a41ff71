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

namespace headroom {

/// A model's configuration and weights: a folder in diffusers layout, or a stand-in with random weights.
/// Weights are mapped or made when asked for. Safe to use from several threads, but for release() of a tensor that
/// another thread is still reading.
class Checkpoint {
 public:
  /// Opens `folder`, or its `transformer/` where only that has a config.json. Weights are
  /// `diffusion_pytorch_model.safetensors` or `model.safetensors`, or the shards that `<name>.index.json` lists (tensors
  /// that it does not list are not seen). A folder that was saved over may have both, and notes() says which were taken:
  /// those that the library takes that saves under the name, shards for diffusers and the whole file for transformers,
  /// but never shards that are not there.
  /// Throws Error naming what is missing and what is there instead, the file and tensor that is broken, or the library
  /// that quantized the weights in a form that is not read.
  [[nodiscard]] static Checkpoint open(const std::filesystem::path& folder);

  /// A stand-in that needs no files: every tensor is normal with standard deviation 0.02, around 1 where it is a rank-1
  /// `*.weight` (the gain of a normalization layer) and around 0 otherwise. A tensor depends only on `seed`, its name,
  /// type and shape. Throws Error for a dtype that is not a float, or a repeated name.
  [[nodiscard]] static Checkpoint random(nlohmann::json config, std::vector<TensorSpec> tensors, std::uint64_t seed);

  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  [[nodiscard]] const nlohmann::json& config() const noexcept;
  /// The folder that holds config.json; empty for a random stand-in.
  [[nodiscard]] const std::filesystem::path& folder() const noexcept;
  /// How messages call it: the folder's path, or "random weights (seed 7)".
  [[nodiscard]] const std::string& description() const noexcept;
  [[nodiscard]] bool is_random() const noexcept;

  /// What the user should know of how the weights were found, a sentence each.
  [[nodiscard]] std::span<const std::string> notes() const noexcept;

  /// All tensors that can be read, by name in order.
  [[nodiscard]] std::span<const TensorSpec> tensors() const noexcept;
  /// Those of a type that is not read, by name in order.
  [[nodiscard]] std::span<const std::string> unread() const noexcept;
  /// Whether there is such a tensor, of whatever type.
  [[nodiscard]] bool has(std::string_view name) const;
  /// Throws Error where there is no such tensor or it is of a type that is not read; so do the functions below.
  [[nodiscard]] const TensorSpec& entry(std::string_view name) const;
  /// The elements, row-major, perhaps unaligned; valid until release(name) or the checkpoint's end.
  [[nodiscard]] std::span<const std::byte> bytes(std::string_view name) const;
  /// A copy of the tensor, which release() does not touch.
  [[nodiscard]] HostTensor read(std::string_view name) const;
  /// How a random stand-in draws the tensor, so that a device can do so itself; nothing where it comes from a file.
  [[nodiscard]] std::optional<NormalStream> normal_stream(std::string_view name) const;
  /// Gives back the memory behind bytes(name); it can be asked for again.
  void release(std::string_view name) const;

  [[nodiscard]] std::uint64_t total_bytes() const noexcept;
  [[nodiscard]] std::int64_t parameter_count() const noexcept;

  class Source;  // where bytes come from: files or a generator; private to checkpoint.cpp

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  [[nodiscard]] const TensorSpec* find(std::string_view name) const;  // null where there is none that can be read
  [[nodiscard]] bool is_unread(std::string_view name) const;

  std::unique_ptr<State> state_;
};

/// The config.json of a folder. Throws Error where it cannot be read or is no JSON object.
[[nodiscard]] nlohmann::json read_config(const std::filesystem::path& folder);
/// `folder` or its `transformer/`, whichever holds the config.json. Throws Error that says what is there instead.
[[nodiscard]] std::filesystem::path find_config_folder(const std::filesystem::path& folder);
/// Whether the weights lie in that folder too, as Checkpoint::open() takes them.
[[nodiscard]] bool has_weights(const std::filesystem::path& folder);

/// Says of a tensor that the model has no use for it, so that it may be there or not.
using IsIgnored = bool (*)(std::string_view tensor);

/// Compares names and shapes (not dtypes) with what a model expects. One sentence for each kind of difference (missing,
/// of a type that is not read, unexpected, wrong shape), with the first few names and the count; empty where all agrees.
[[nodiscard]] std::vector<std::string> check_params(const Checkpoint& checkpoint, std::span<const TensorSpec> expected,
                                                    IsIgnored is_ignored = nullptr);

/// Throws an Error made of check_params' sentences where there are any.
void require_params(const Checkpoint& checkpoint, std::span<const TensorSpec> expected, IsIgnored is_ignored = nullptr);

}  // namespace headroom
