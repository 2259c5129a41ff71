#include "run/session/bindings.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

bool overlap(const DeviceMemory& a, const DeviceMemory& b) {
  return a.at.address() < (b.at + b.bytes).address() && b.at.address() < (a.at + a.bytes).address();
}

}  // namespace

std::string_view name_of(Bound what) {
  if (what == Bound::kInput) return "input";
  return what == Bound::kOutput ? "output" : "state";
}

void Bindings::add(Bound what, std::string_view name, const DeviceMemory& memory, std::size_t bytes,
                   std::size_t alignment) {
  if (memory.bytes != bytes)
    fail("{} '{}' cannot lie in {} bytes: it has {}, row-major without gaps", name_of(what), name, memory.bytes, bytes);
  if (!memory.at || reinterpret_cast<std::uintptr_t>(memory.at.address()) % alignment != 0)
    fail("{} '{}' cannot lie at {}: kernels need an address that is a multiple of {}", name_of(what), name,
         memory.at.address<const void>(), alignment);
  memory_.insert_or_assign({what, std::string(name)}, memory);
}

void Bindings::remove(Bound what, std::string_view name) { memory_.erase({what, std::string(name)}); }

void Bindings::require_apart() const {
  for (auto a = memory_.begin(); a != memory_.end(); ++a)
    for (auto b = std::next(a); b != memory_.end(); ++b) {
      const bool are_read = a->first.first == Bound::kInput && b->first.first == Bound::kInput;
      if (!are_read && overlap(a->second, b->second))
        fail("{} '{}' and {} '{}' are bound to memory that overlaps, and a run writes to it", name_of(a->first.first),
             a->first.second, name_of(b->first.first), b->first.second);
    }
}

}  // namespace headroom
