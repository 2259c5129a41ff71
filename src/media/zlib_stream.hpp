#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// The filtered rows of a PNG as a zlib stream (RFC 1950). Threads compress pieces of 64 KiB side by side, each with the 32 KiB in front
/// of it as its dictionary, so the stream is about as long as one that is made in one go. Equal rows give equal streams,
/// whatever the number of threads.
[[nodiscard]] std::string zlib_stream(std::string_view rows);

}  // namespace headroom
