#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.hpp"
#include "base/tensors/dtype.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/shape.hpp"

namespace headroom {

/// Reading and writing of the safetensors format (https://huggingface.co/docs/safetensors): an 8-byte little-endian
/// header length, a JSON header, then the elements of all tensors back to back, row-major and little-endian.

/// A tensor's name, type and shape, without its elements.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  [[nodiscard]] std::uint64_t size_bytes() const { return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// The location of a tensor in a file. `offset` counts from the start of the file and may have any alignment.
struct SafetensorsEntry {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

/// A tensor of a type that the format has but no kernel supports ("I16"). Other tensors of the file remain
/// readable.
struct UnreadTensor {
  std::string_view dtype;  ///< its name in the header
  Shape shape;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const UnreadTensor&, const UnreadTensor&) = default;
};

using SafetensorsEntries = std::map<std::string, SafetensorsEntry, std::less<>>;
using UnreadTensors = std::map<std::string, UnreadTensor, std::less<>>;
using SafetensorsMetadata = std::map<std::string, std::string, std::less<>>;

struct SafetensorsHeader {
  SafetensorsEntries entries;    // by name
  UnreadTensors unread;          // by name
  SafetensorsMetadata metadata;  // "__metadata__"
};

/// Parses and validates the header of a whole file given by `file`. Accepts exactly what the format allows.
/// The header is one JSON object of at most 100 MB without duplicate keys. A tensor has a known dtype and at most
/// Shape::kMaxRank non-negative extents that do not overflow. The data fills the rest of the file without overlap or
/// hole. Takes linear time, and memory of less than ten times the size of the header. Headers with very many short
/// metadata, which would take more, are refused.
/// Throws Error: one sentence with `context` (usually the path), the tensor, the value and the expected value.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::string_view context);

/// A safetensors file, mapped and validated; data is read on demand. Thread-safe for reading.
class SafetensorsFile {
 public:
  [[nodiscard]] static SafetensorsFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
  /// Tensors of supported types.
  [[nodiscard]] const SafetensorsEntries& entries() const noexcept { return header_.entries; }
  /// The other tensors.
  [[nodiscard]] const UnreadTensors& unread() const noexcept { return header_.unread; }
  [[nodiscard]] const SafetensorsMetadata& metadata() const noexcept { return header_.metadata; }
  /// Whether the file has the tensor, of any type.
  [[nodiscard]] bool has(std::string_view name) const {
    return header_.entries.contains(name) || header_.unread.contains(name);
  }
  /// Throws Error if the file has no such tensor, or if its type is not supported; so do all functions below.
  [[nodiscard]] const SafetensorsEntry& entry(std::string_view name) const;
  /// The elements as stored in the file, possibly unaligned: memcpy them, or use read().
  [[nodiscard]] std::span<const std::byte> bytes(std::string_view name) const;
  /// A copy of the tensor.
  [[nodiscard]] HostTensor read(std::string_view name) const;
  /// Releases the memory that reading the tensor made resident; it can be read again.
  void release(std::string_view name) const;
  void advise_sequential() const noexcept { file_.advise_sequential(); }

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header);

  MappedFile file_;
  SafetensorsHeader header_;
};

/// Writes a file that may be larger than memory. All tensors are declared first; then their bytes are appended in
/// that order, each in one piece or several. The file appears complete at commit(), or not at all.
class SafetensorsWriter {
 public:
  /// Throws Error if a name is repeated or reserved, or if the file cannot be written.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                    const SafetensorsMetadata& metadata = {});

  /// Appends the next bytes of the tensor `name`. Throws std::logic_error if another tensor is next, or if these
  /// are more bytes than the tensor has.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Throws std::logic_error if a tensor is incomplete.
  void commit();

 private:
  void skip_complete();  // skips tensors that need no more bytes

  AtomicFile file_;
  std::vector<TensorSpec> tensors_;
  std::size_t current_ = 0;
  std::uint64_t written_bytes_ = 0;  // of tensors_[current_]
};

/// Writes `tensors` atomically. Equal arguments give equal bytes: wide element types come first, so that every
/// tensor is aligned to its elements, then names in order.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, HostTensor>& tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace headroom
