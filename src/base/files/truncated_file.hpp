#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

/// Mapped files that are truncated while they are read: the system then sends SIGBUS to the reader.
namespace headroom {

/// Lets the process survive this for every MappedFile: missing bytes read as zeros, and require_whole() throws.
/// Other SIGBUS still end the process. Only main() should decide about signals, so programs that use the library
/// keep their own action.
void survive_truncated_files();

/// Throws Error if the bytes belong to a mapped file that was truncated or could not be read. Call it after reading
/// and before using the bytes. Bytes outside mapped files are accepted.
void require_whole(std::span<const std::byte> bytes);

/// For MappedFile: watches the memory that a file is mapped to, until unwatch() of the same memory. `descriptor` is
/// the file's and is closed by unwatch().
void watch(std::span<const std::byte> bytes, std::filesystem::path path, int descriptor);
void unwatch(std::span<const std::byte> bytes) noexcept;

}  // namespace headroom
