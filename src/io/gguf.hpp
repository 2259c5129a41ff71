#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.hpp"
#include "base/tensors/block_format.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/shape.hpp"

/// Reading of the GGUF format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3,
/// little-endian: metadata, a list of tensors, then their data, each at a multiple of the file's alignment.
namespace headroom {

/// Types of metadata, by their numbers in a file.
enum class GgufType : std::uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };
/// "u8", "text", "array"
[[nodiscard]] std::string_view name_of(GgufType type);

/// A validated value of the metadata, as a view of the file.
class GgufValue {
 public:
  GgufValue(GgufType type, std::span<const std::byte> bytes) : type_(type), bytes_(bytes) {}

  [[nodiscard]] GgufType type() const noexcept { return type_; }
  /// The value as an integer, a number, a truth value or a text; empty for another type, and for an integer that does
  /// not fit. An integer is also a number.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  [[nodiscard]] std::optional<std::uint64_t> large_integer() const;  ///< of type u64
  [[nodiscard]] std::optional<double> number() const;
  [[nodiscard]] std::optional<bool> boolean() const;
  [[nodiscard]] std::optional<std::string_view> text() const;

  /// The type and the number of an array's elements. Throws std::logic_error for another type.
  [[nodiscard]] GgufType element_type() const;
  [[nodiscard]] std::uint64_t count() const;
  /// The first elements of an array, at most `most`.
  [[nodiscard]] std::vector<GgufValue> elements(std::size_t most) const;

 private:
  GgufType type_;
  std::span<const std::byte> bytes_;  // as in the file; of an array with the type and number of its elements
};

struct GgufEntry {
  std::string_view key;  ///< in the file
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;      ///< in the file
  const BlockFormat* format;  ///< perhaps one that is not read
  /// Outermost extent first, the reverse of the file's order. A tensor that ComfyUI flattened has its true shape.
  Shape shape;
  std::uint64_t offset = 0;  ///< from the start of the file
  std::uint64_t size_bytes = 0;
};

/// The part that a file is of a model split among several.
struct GgufPart {
  std::int64_t number;  ///< from 1
  std::int64_t count;
};

/// Views of the file's bytes, which must outlive it.
struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  std::vector<GgufEntry> metadata;  ///< in the file's order; empty in files of stable-diffusion.cpp
  std::vector<GgufTensor> tensors;  ///< by name
  std::optional<GgufPart> part;     ///< empty for a whole model

  /// Null if there is none.
  [[nodiscard]] const GgufValue* find_metadata(std::string_view key) const;
  [[nodiscard]] const GgufTensor* find(std::string_view name) const;
};

/// Whether a file begins as GGUF does.
[[nodiscard]] bool is_gguf(std::span<const std::byte> file);

/// Parses and validates the header of a whole file. Every value and all data lie in the file, no two tensors share
/// bytes, names are unique, and a tensor has a known format, at most four extents and whole blocks in each row.
/// Takes time linear in the header's size, except for sorting, and less than 64 MiB for any file. A header has at most
/// 100 MB, 65,536 metadata and 262,144 tensors; arrays are nested at most four deep.
/// Throws Error: one sentence with `context` (usually the path), the place, the value and the expected value.
[[nodiscard]] GgufHeader parse_gguf_header(std::span<const std::byte> file, std::string_view context);

/// A GGUF file, mapped and validated; data is read on demand. Thread-safe for reading.
class GgufFile {
 public:
  [[nodiscard]] static GgufFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return file_.size(); }
  [[nodiscard]] const GgufHeader& header() const noexcept { return header_; }
  /// Throws Error if the file has no such tensor.
  [[nodiscard]] const GgufTensor& tensor(std::string_view name) const;
  /// The blocks as stored, possibly unaligned.
  [[nodiscard]] std::span<const std::byte> bytes(const GgufTensor& tensor) const;
  /// The elements in f32. Throws Error for a format that is not read.
  [[nodiscard]] HostTensor unpack(const GgufTensor& tensor) const;
  /// Releases the memory that reading the tensor made resident; it can be read again.
  void release(const GgufTensor& tensor) const;

 private:
  GgufFile(MappedFile file, GgufHeader header);

  MappedFile file_;
  GgufHeader header_;
};

}  // namespace headroom
