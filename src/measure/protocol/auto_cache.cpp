#include "measure/protocol/auto_cache.hpp"

#include <fmt/format.h>

#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/files/hash.hpp"
#include "base/files/user_cache.hpp"
#include "base/text/json.hpp"
#include "measure/results/json_members.hpp"
#include "measure/results/result_records.hpp"

namespace headroom {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kSchema = "headroom.auto/1";

}  // namespace

std::optional<AutoCache> AutoCache::of_user() {
  const std::optional<fs::path> folder = user_cache_folder("auto");
  if (!folder) return std::nullopt;
  return AutoCache(*folder);
}

namespace {
records::Field<std::vector<AutoTrial>> trials_field() { return list(object(records::auto_trial_record())); }
}  // namespace

fs::path AutoCache::file_of(const json& key) const {
  return folder_ / (Hasher().add(kSchema).add(dump_json(key)).hex() + ".json");
}

std::optional<AutoCache::Entry> AutoCache::find(const json& key) const {
  const fs::path file = file_of(key);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  const std::string place = file.string();
  const json document = read_json(file);
  if (get_string(document, "schema", place) != kSchema) fail("{}: the schema is not {}", place, kSchema);
  check_members(document, {"schema", "created", "key", "switches", "trials"}, place);
  if (get_object(document, "key", place) != key) fail("{}: it belongs to another request", place);
  return Entry{.choice = {.switches = SwitchSet::parse(get_string(document, "switches", place)),
                          .trials = trials_field().read(get(document, "trials", place), JsonMember{"trials"}, place)},
               .created = get_string(document, "created", place)};
}

void AutoCache::store(const json& key, const Entry& entry) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail("{}: cannot make the folder: {}", folder_.string(), error.message());
  write_json(file_of(key), {{"schema", kSchema},
                            {"created", entry.created},
                            {"key", key},
                            {"switches", entry.choice.switches.to_string()},
                            {"trials", trials_field().write(entry.choice.trials)}});
}

}  // namespace headroom
