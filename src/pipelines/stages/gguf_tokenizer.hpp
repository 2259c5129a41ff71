#pragma once

#include <filesystem>

#include "text/tokenizer.hpp"

namespace headroom {

/// Whether it is a GGUF file with a tokenizer in its metadata.
[[nodiscard]] bool has_gguf_tokenizer(const std::filesystem::path& file);
/// Opens it. Throws Error for a file without one and for one that is not read.
[[nodiscard]] Tokenizer open_gguf_tokenizer(const std::filesystem::path& file);

}  // namespace headroom
