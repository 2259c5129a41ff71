#pragma once

#include <cstddef>
#include <cstdint>

namespace headroom::cuda {

/// word = (32 random bits & keep) | set, `words` of them.
void launch_fill_words(void* stream, std::uint32_t keep, std::uint32_t set, void* data, std::size_t words);

}  // namespace headroom::cuda
