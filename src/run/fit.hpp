#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "run/compile.hpp"
#include "run/weights/weight_store.hpp"

/// Whether a request fits in a device's memory, told before anything is loaded, and what would.
namespace headroom {

/// How much is asked for at once.
struct RequestSize {
  std::int64_t images = 1;
  std::int64_t token_rows = 0;  ///< 0, like the columns, where the size of an image is fixed
  std::int64_t token_columns = 0;
  std::int64_t token_pixels = 0;  ///< along a token; 0 where nobody knows
};

/// A request as it may be asked for in other ways.
struct FittedRequest {
  std::string model;
  SwitchSet switches;
  RequestSize size;
  std::function<Compiled(const SwitchSet& switches, const RequestSize& size)> compile;
  std::string stage = {};  ///< the stage of the request that is meant, where it has several
  /// Bytes that other stages have in memory meanwhile.
  std::size_t beside = 0;
  /// Bytes of the device's memory that may be used in all; 0 where that is all that is available.
  std::size_t limit = 0;
  bool is_limited = false;  ///< `limit` is what was asked for, not what the device has
  bool suggests = true;     ///< the error tells what would fit, which takes as long as planning it
};

/// Throws OutOfMemory where a session of `program`, which is the request compiled, needs with what is beside it more than
/// the device has: with the need by category and, each planned, requests that fit: more switches, fewer images, smaller
/// ones.
void require_fit(const Program& program, const FittedRequest& request, const WeightStore& weights,
                 const Backend& backend);

}  // namespace headroom
