#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/file.hpp"
#include "base/tensors/block_format.hpp"
#include "base/tensors/shape.hpp"

namespace headroom {

/// A tensor to be written: its extents, the outermost first, and the format of its rows.
struct GgufTensorSpec {
  std::string name;
  const BlockFormat* format = nullptr;
  Shape shape;

  [[nodiscard]] std::uint64_t size_bytes() const;
};

using GgufMetadata = std::vector<std::pair<std::string, std::variant<std::string, std::uint32_t>>>;

/// Writes a GGUF file of version 3 that may be larger than memory. All tensors are declared first; then their bytes are
/// appended in that order, each in one piece or several. The file appears complete at commit(), or not at all.
class GgufWriter {
 public:
  /// Throws Error for a repeated name, one of more than 63 bytes, more than four extents, rows that are not whole
  /// blocks, and if the file cannot be written.
  GgufWriter(const std::filesystem::path& path, std::vector<GgufTensorSpec> tensors, const GgufMetadata& metadata);

  /// Appends the next bytes of the tensor `name`. Throws std::logic_error if another tensor is next, or if these are
  /// more bytes than the tensor has.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Throws std::logic_error if a tensor is incomplete.
  void commit();

 private:
  void pad();
  void skip_complete();

  AtomicFile file_;
  std::vector<GgufTensorSpec> tensors_;
  std::size_t current_ = 0;
  std::uint64_t at_ = 0;             // in the file
  std::uint64_t written_bytes_ = 0;  // of tensors_[current_]
};

}  // namespace headroom
