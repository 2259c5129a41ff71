#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensors/block_format.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/random.hpp"
#include "io/safetensors.hpp"

/// Tensors by name, from files or a generator: what a Checkpoint reads. All sources are thread-safe.
namespace headroom {

/// Rows [first, first + count) along a tensor's outermost extent.
struct TensorRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const TensorRows&, const TensorRows&) = default;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// All tensors of supported types.
  [[nodiscard]] virtual std::vector<TensorSpec> tensors() const = 0;
  /// The names of the other tensors.
  [[nodiscard]] virtual std::vector<std::string> unread() const { return {}; }
  /// The files that hold them; none for a generator.
  [[nodiscard]] virtual std::vector<std::filesystem::path> files() const { return {}; }
  /// Throws the Error for a tensor of unread().
  virtual void fail_unread(std::string_view /*name*/) const {}

  /// Functions of one tensor take one of tensors().
  /// The elements, row-major and possibly unaligned; valid until release().
  [[nodiscard]] virtual std::span<const std::byte> bytes(const TensorSpec& tensor) = 0;
  /// A copy.
  [[nodiscard]] virtual HostTensor read(const TensorSpec& tensor) = 0;
  virtual void release(const TensorSpec& tensor) = 0;
  /// Rows as a view of the file, valid until release(); empty if the file stores the elements in another format.
  [[nodiscard]] virtual std::optional<std::span<const std::byte>> view_rows(const TensorSpec& /*tensor*/,
                                                                            TensorRows /*rows*/) {
    return std::nullopt;
  }
  /// Whether an element takes at most two bytes in the file.
  [[nodiscard]] virtual bool is_narrow(const TensorSpec& tensor) const { return size_of(tensor.dtype) <= 2; }
  /// The format of the blocks in which rows, along the outermost extent, are stored; null for elements that are stored
  /// as they are read, and for rows that share blocks. What bytes() and read() give is unpacked to f32.
  [[nodiscard]] virtual const BlockFormat* block_format(const TensorSpec& /*tensor*/) const { return nullptr; }
  /// The blocks of rows of such a tensor, valid until release().
  [[nodiscard]] virtual std::span<const std::byte> blocks(const TensorSpec& tensor, TensorRows rows);
  /// A copy of rows.
  [[nodiscard]] virtual HostTensor read_rows(const TensorSpec& tensor, TensorRows rows);
  /// The generator of a random tensor; empty for a tensor from a file.
  [[nodiscard]] virtual std::optional<NormalStream> normal_stream(const TensorSpec& /*tensor*/) const {
    return std::nullopt;
  }
  /// The elements of a tensor that lies in memory of the device that reads it: an address there. Its other functions
  /// may not be called then.
  [[nodiscard]] virtual std::optional<std::span<const std::byte>> device_bytes(const TensorSpec& /*tensor*/) const {
    return std::nullopt;
  }
  /// Whether finish() will free the tensor's memory on the device that reads it.
  [[nodiscard]] virtual bool is_freed(const TensorSpec& /*tensor*/) const { return false; }
  /// Called when no submitted work reads the tensor and all that a program needs of it has been made.
  virtual void finish(const TensorSpec& /*tensor*/) {}
};

/// Tensors that are made when they are read, and kept until they are released. Thread-safe.
class MadeTensors {
 public:
  [[nodiscard]] std::span<const std::byte> bytes(const std::string& name, const std::function<HostTensor()>& make);
  void release(const std::string& name);

 private:
  std::mutex mutex_;
  std::map<std::string, HostTensor, std::less<>> made_;
};

/// A safetensors file, or the shards of an index, whose path ends in .json. Throws Error for a broken file and a
/// missing shard.
[[nodiscard]] std::shared_ptr<TensorSource> open_safetensors(const std::filesystem::path& path);
/// A GGUF file. Numbers in blocks are unpacked to f32 when they are read. Throws Error for a part of a split model.
[[nodiscard]] std::shared_ptr<TensorSource> open_gguf(const std::filesystem::path& path);
/// A safetensors or GGUF file, by its content. Throws Error for a pickle of PyTorch, which it does not read.
[[nodiscard]] std::shared_ptr<TensorSource> open_weights_file(const std::filesystem::path& path);

/// Random weights, as Checkpoint::random() describes them.
[[nodiscard]] std::shared_ptr<TensorSource> make_random_tensors(std::vector<TensorSpec> tensors, std::uint64_t seed,
                                                                const BlockFormat* format = nullptr);

/// A tensor in memory, at any address.
struct TensorInMemory {
  TensorSpec tensor;
  std::span<const std::byte> bytes;
  bool is_on_device = false;  ///< in memory of the device that reads it; otherwise of the host
};
/// Called by name when a tensor is finished, once: returns its elements in host memory from then on. Nothing if they
/// are gone: reading them then throws Error.
using FinishTensor = std::function<std::optional<std::span<const std::byte>>(const std::string& name)>;
/// `owner`, or else the caller, keeps the memory alive. Throws Error for a tensor with another number of bytes.
[[nodiscard]] std::shared_ptr<TensorSource> tensors_in_memory(std::vector<TensorInMemory> tensors,
                                                              std::shared_ptr<const void> owner,
                                                              FinishTensor finish = {});

/// A tensor of a network that a source holds under another name: rows of it in order. One range is a view of the
/// source; several ranges, and a transposed matrix, are copied.
struct RenamedTensor {
  TensorSpec tensor;  ///< its elements are those of the rows
  TensorSpec stored;  ///< in the source
  std::vector<TensorRows> rows;
  bool is_transposed = false;  ///< `stored` is [columns, rows] of `tensor`, and `rows` are all
};
/// Throws std::logic_error for rows outside of a stored tensor, and for other numbers of elements.
[[nodiscard]] std::shared_ptr<TensorSource> rename_tensors(std::shared_ptr<TensorSource> source,
                                                           std::vector<RenamedTensor> tensors);

/// Whether it is a file of PyTorch's own: a zip archive, or a pickle of an older version.
[[nodiscard]] bool is_pickle(std::span<const std::byte> file);
/// Throws Error for such a file: it says why it is not read.
[[noreturn]] void refuse_pickle(const std::filesystem::path& path);

}  // namespace headroom
