#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

/// Mapped files whose bytes go away while they are read: the system then sends SIGBUS to whoever reads them.
namespace headroom {

/// Has the process survive that, in any MappedFile: what is gone reads as zeros, and require_whole() throws. Other
/// SIGBUS end the process as ever. It is main() that decides about signals, so a program that uses the library keeps its
/// own action.
void survive_truncated_files();

/// Throws Error where the bytes are of a mapped file that has become shorter, or that could not be read. Whoever has read
/// some asks before using them; bytes that are of no mapped file are whole.
void require_whole(std::span<const std::byte> bytes);

/// For MappedFile: watches memory that a file is mapped to, until unwatch() of the same. `descriptor` is the file's, which
/// unwatch() closes.
void watch(std::span<const std::byte> bytes, std::filesystem::path path, int descriptor);
void unwatch(std::span<const std::byte> bytes) noexcept;

}  // namespace headroom
