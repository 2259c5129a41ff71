#include "base/files/opened_library.hpp"

#include <dlfcn.h>

#include <utility>

#include "base/error.hpp"

namespace headroom {

OpenedLibrary::OpenedLibrary(std::string_view user, std::string soname, std::string product)
    : soname_(std::move(soname)), product_(std::move(product)), file_(dlopen(soname_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (file_ == nullptr)
    fail("{} needs {} ({}), which the loader does not find: {}; install it or put its folder into LD_LIBRARY_PATH",
         user, soname_, product_, dlerror());
}

void* OpenedLibrary::address_of(const char* name) const {
  void* const address = dlsym(file_, name);
  if (address == nullptr) fail("{} has no function {}; install {} or newer", soname_, name, product_);
  return address;
}

}  // namespace headroom
