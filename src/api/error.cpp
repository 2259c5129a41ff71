#include "base/error.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "api/impl.hpp"
#include "base/out_of_memory.hpp"
#include "base/text/printable.hpp"

namespace headroom::v1 {

Error::Error(const std::string& message, Kind kind) : std::runtime_error(message), kind_(kind) {}
Error::~Error() = default;

OutOfMemory::OutOfMemory(const std::string& message) : Error(message, Kind::kFailed) {}
OutOfMemory::~OutOfMemory() = default;

void rethrow_outer() {
  try {
    throw;
  } catch (const headroom::OutOfMemory& error) {
    throw OutOfMemory(printable_name(error.what()));
  } catch (const headroom::Error& error) {
    throw Error(printable_name(error.what()),
                error.code() == ExitCode::kUsage ? Error::Kind::kUsage : Error::Kind::kFailed);
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(printable_name(fmt::format("cannot read {}: {}", error.path1().native(), error.code().message())),
                Error::Kind::kFailed);
  }
}

}  // namespace headroom::v1
