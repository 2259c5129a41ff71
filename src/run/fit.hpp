#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "run/compile.hpp"
#include "run/weights/weight_store.hpp"

/// Checks before loading whether a request fits in a device's memory, and suggests requests that do.
namespace headroom {

/// The size of a request.
struct RequestSize {
  std::int64_t images = 1;
  std::int64_t token_rows = 0;  ///< 0, like the columns, if the image size is fixed
  std::int64_t token_columns = 0;
  std::int64_t token_pixels = 0;  ///< along one side of a token; 0 if unknown
};

/// A request that can be compiled with other switches and sizes.
struct FittedRequest {
  std::string model;
  SwitchSet switches;
  RequestSize size;
  std::function<Compiled(const SwitchSet& switches, const RequestSize& size)> compile;
  std::string stage = {};       ///< the stage that is checked, if the request has several
  bool is_setup_apart = false;  ///< the program's setup is another of these stages
  /// Bytes that other stages keep in memory at the same time.
  std::size_t other_stages = 0;
  /// Device memory that may be used in all, in bytes; 0 is all that is available.
  std::size_t limit = 0;
  bool is_limited = false;  ///< the user set `limit`; it is not the device's capacity
  bool suggests = true;     ///< the error suggests requests that fit, which takes as long as planning them
};

/// Throws OutOfMemory if a session of `program`, the compiled request, and the other stages together need more memory
/// than the device has. The error lists the need by category and requests that fit, each of them planned: more
/// switches, fewer images, smaller ones.
void require_fit(const Program& program, const FittedRequest& request, const WeightStore& weights,
                 const Backend& backend);

}  // namespace headroom
