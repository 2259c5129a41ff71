#include "api/impl.hpp"

namespace headroom::v1 {

std::string_view version() noexcept { return HEADROOM_VERSION; }

}  // namespace headroom::v1
