#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// The filtered rows of a PNG as a zlib stream (RFC 1950). Threads compress pieces of 64 KiB in parallel, each with
/// the preceding 32 KiB as its dictionary. The stream is therefore about as short as one compressed serially. Equal
/// rows give equal streams for any number of threads.
[[nodiscard]] std::string zlib_stream(std::string_view rows);

}  // namespace headroom
