#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace headroom {

/// An array of bytes from a file in idx format (http://yann.lecun.com/exdb/mnist): two bytes 0, the type 8, the number
/// of axes, their extents as big-endian words of 32 bits, then the elements, row-major.
struct IdxArray {
  std::vector<std::int64_t> extents;
  std::string bytes;
};

/// Reads the file, which may be compressed by gzip. Throws Error if it is no whole file of this format.
[[nodiscard]] IdxArray read_idx_file(const std::filesystem::path& path);

}  // namespace headroom
