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

/// A tensor by name and type, without its elements.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  [[nodiscard]] std::uint64_t size_bytes() const { return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Where a tensor lies in a file. `offset` counts from the start of the file and may have any alignment.
struct SafetensorsEntry {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

/// A tensor of a type that the format has and no kernel reads ("I16"). It makes no other tensor unreadable.
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

/// Parses and validates the header of a whole file held in `file`. Accepts exactly what the format allows: a header of
/// at most 100 MB that is one JSON object without duplicate keys, known dtypes, extents that are not negative and do
/// not overflow, at most Shape::kMaxRank of them, and data that fills the rest of the file without overlap or hole.
/// Takes linear time, and less than ten times the header's bytes of memory: a header of very many metadata so short that
/// they would take more is refused.
/// Throws Error: one sentence with `context` (usually the path), the tensor, the value and what was expected.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::string_view context);

/// A safetensors file, mapped and validated; nothing is read before it is asked for. Safe to read from several threads.
class SafetensorsFile {
 public:
  [[nodiscard]] static SafetensorsFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
  /// The tensors that can be read.
  [[nodiscard]] const SafetensorsEntries& entries() const noexcept { return header_.entries; }
  /// The others.
  [[nodiscard]] const UnreadTensors& unread() const noexcept { return header_.unread; }
  [[nodiscard]] const SafetensorsMetadata& metadata() const noexcept { return header_.metadata; }
  /// Whether the file has the tensor, of whatever type.
  [[nodiscard]] bool has(std::string_view name) const {
    return header_.entries.contains(name) || header_.unread.contains(name);
  }
  /// Throws Error where the file has no such tensor, or has it in a type that is not read; so do all functions below.
  [[nodiscard]] const SafetensorsEntry& entry(std::string_view name) const;
  /// The elements as they lie in the file, perhaps unaligned: memcpy them, or use read().
  [[nodiscard]] std::span<const std::byte> bytes(std::string_view name) const;
  /// A copy of the tensor.
  [[nodiscard]] HostTensor read(std::string_view name) const;
  /// Gives back the memory that reading the tensor made resident; it can be read again.
  void release(std::string_view name) const;
  void advise_sequential() const noexcept { file_.advise_sequential(); }

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header);

  MappedFile file_;
  SafetensorsHeader header_;
};

/// Writes a file that may be larger than memory: all tensors are declared first, then their bytes are appended in that
/// order, each in one piece or several. The file appears at commit(), whole, or not at all.
class SafetensorsWriter {
 public:
  /// Throws Error where a name is repeated or reserved, or the file cannot be written.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                    const SafetensorsMetadata& metadata = {});

  /// Appends the next bytes of the tensor `name`. Throws std::logic_error where it is not that tensor's turn, or these
  /// are more bytes than it has.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Throws std::logic_error where a tensor is still incomplete.
  void commit();

 private:
  void skip_complete();  // past the tensors that need no more bytes

  AtomicFile file_;
  std::vector<TensorSpec> tensors_;
  std::size_t current_ = 0;
  std::uint64_t written_bytes_ = 0;  // of tensors_[current_]
};

/// Writes `tensors` atomically. Equal arguments give equal bytes: wide element types come first, so that every tensor
/// is aligned to its element, then names in order.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, HostTensor>& tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace headroom
