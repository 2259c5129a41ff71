#include "base/files/truncated_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/error.hpp"

namespace headroom {

namespace {

/// Entries are never freed, so that the handler may walk the list at any time. Entries of removed mappings are
/// reused.
struct Entry {
  std::atomic<bool> is_used = true;
  std::atomic<std::uintptr_t> begin = 0;  // 0 if the entry is unused
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> is_cut = false;  // missing bytes were accessed
  Entry* next = nullptr;
  // Not used by the handler:
  std::filesystem::path path = {};
  int descriptor = -1;
  std::uint64_t bytes = 0;

  void require_whole() const {
    struct stat status {};
    const bool is_shorter = ::fstat(descriptor, &status) != 0 || static_cast<std::uint64_t>(status.st_size) < bytes;
    if (is_shorter || is_cut)
      fail("{} became shorter while it was read, or its device failed: expected a file that stays as it is",
           path.native());
  }
};

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

std::atomic<Entry*> first_entry = nullptr;
std::uintptr_t page_bytes = 4096;

/// Async-signal-safe. Null if no mapping contains the address.
Entry* find_entry(std::uintptr_t at) noexcept {
  for (Entry* entry = first_entry; entry != nullptr; entry = entry->next)
    if (entry->begin <= at && at < entry->end) return entry;
  return nullptr;
}

/// Async-signal-safe. Maps zero pages from the page of the fault to the end of the mapping.
bool replace_by_zeros(std::uintptr_t at) noexcept {
  Entry* const entry = find_entry(at);
  if (entry == nullptr) return false;
  entry->is_cut = true;
  const std::uintptr_t page = at / page_bytes * page_bytes;
  void* const made = ::mmap(reinterpret_cast<void*>(page), entry->end - page, PROT_READ,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return made != MAP_FAILED;
}

void on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const bool is_replaced = info->si_code > 0 && replace_by_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = error;
  if (is_replaced) return;  // the instruction is restarted
  std::signal(signal, SIG_DFL);
  if (info->si_code <= 0) std::raise(signal);  // sent by a process; otherwise the instruction faults again
}

Entry& free_entry() {
  for (Entry* entry = first_entry; entry != nullptr; entry = entry->next)
    if (!entry->is_used.exchange(true)) return *entry;
  auto* const made = new Entry;
  made->next = first_entry;
  while (!first_entry.compare_exchange_weak(made->next, made)) {
  }
  return *made;
}

}  // namespace

void survive_truncated_files() {
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &action, nullptr);
}

void require_whole(std::span<const std::byte> bytes) {
  if (const Entry* const entry = find_entry(reinterpret_cast<std::uintptr_t>(bytes.data()))) entry->require_whole();
}

void watch(std::span<const std::byte> bytes, std::filesystem::path path, int descriptor) {
  Entry& entry = free_entry();
  entry.is_cut = false;
  entry.path = std::move(path);
  entry.descriptor = descriptor;
  entry.bytes = bytes.size();
  // The address is set last, after the end, and cleared first, so that the handler never sees a partial entry.
  entry.begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  entry.end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
}

void unwatch(std::span<const std::byte> bytes) noexcept {
  Entry* const entry = find_entry(reinterpret_cast<std::uintptr_t>(bytes.data()));
  if (entry == nullptr) return;
  entry->end = 0;
  entry->begin = 0;
  ::close(entry->descriptor);
  entry->is_used = false;
}

}  // namespace headroom
