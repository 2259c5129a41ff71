#include "base/error.hpp"

#include "api/impl.hpp"
#include "base/out_of_memory.hpp"

namespace headroom::v1 {

Error::Error(const std::string& message, Kind kind) : std::runtime_error(message), kind_(kind) {}
Error::~Error() = default;

OutOfMemory::OutOfMemory(const std::string& message) : Error(message, Kind::kFailed) {}
OutOfMemory::~OutOfMemory() = default;

void rethrow_outer() {
  try {
    throw;
  } catch (const headroom::OutOfMemory& error) {
    throw OutOfMemory(error.what());
  } catch (const headroom::Error& error) {
    throw Error(error.what(), error.code() == ExitCode::kUsage ? Error::Kind::kUsage : Error::Kind::kFailed);
  }
}

}  // namespace headroom::v1
