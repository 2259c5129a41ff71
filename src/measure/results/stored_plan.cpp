#include "measure/results/stored_plan.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/gzip.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// An untrusted file must not refer outside the folder.
bool is_plan_name(std::string_view name) {
  constexpr std::string_view kFolder = "plans/", kEnding = ".json.gz";
  if (!name.starts_with(kFolder) || !name.ends_with(kEnding)) return false;
  if (name.size() <= kFolder.size() + kEnding.size()) return false;
  const std::string_view hash = name.substr(kFolder.size(), name.size() - kFolder.size() - kEnding.size());
  return std::ranges::all_of(hash, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

nlohmann::json read_stored_plan(const std::filesystem::path& folder, std::string_view name, std::string_view context) {
  if (!is_plan_name(name))
    fail("{} refers to the plan '{}', expected plans/HASH.json.gz", context, printable_name(name));
  const std::filesystem::path path = folder / name;
  if (!is_there(path)) fail("{} refers to its plan in {}, which is not there", context, path.string());
  return parse_json(gunzip(read_file(path), kMostBytes, path.string()), path.string());
}

}  // namespace headroom
