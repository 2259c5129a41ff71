#include "tune/tuning_cache.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/hash.hpp"
#include "base/files/user_cache.hpp"
#include "base/text/json.hpp"

namespace headroom::tune {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kSchema = "headroom.algorithms/1";
/// A file may be written twice within one tick of the file system's clock.
constexpr auto kSettled = std::chrono::milliseconds(100);

json machine_json(const TuningCache::Machine& machine) {
  return {{"device", machine.device}, {"driver", machine.driver}, {"library", machine.library}};
}

/// The size key of an entry; entries of early versions have none, and so no family.
SizeKey size_key_of(const json& entry) {
  const auto family = entry.find("family"), size = entry.find("size");
  if (family == entry.end() || !family->is_string() || size == entry.end() || !size->is_array()) return {};
  SizeKey size_key{.family = family->get<std::string>()};
  for (const json& number : *size) {
    if (!number.is_number_integer()) return {};
    size_key.size.push_back(number.get<std::int64_t>());
  }
  return size_key;
}

}  // namespace

TuningCache::TuningCache(const fs::path& folder, Machine machine)
    : machine_(std::move(machine)),
      file_(folder / (Hasher().add(kSchema).add(dump_json(machine_json(machine_))).hex() + ".json")) {}

std::optional<TuningCache> TuningCache::of_user(Machine machine) {
  const std::optional<fs::path> folder = user_cache_folder("algorithms");
  if (!folder) return std::nullopt;
  return TuningCache(*folder, std::move(machine));
}

std::optional<TuningCache::Stamp> TuningCache::stamp() const {
  std::error_code error;
  Stamp stamp{.written = fs::last_write_time(file_, error)};
  if (error) return std::nullopt;
  stamp.bytes = fs::file_size(file_, error);
  return error ? std::nullopt : std::optional(stamp);
}

TuningCache::Choices TuningCache::read() const {
  Choices choices;
  try {
    const json document = read_json(file_);
    const bool is_ours = document.is_object() && document.value("schema", "") == kSchema &&
                         document.value("machine", json()) == machine_json(machine_) && document.contains("work") &&
                         document.at("work").is_object();
    if (!is_ours) return {};
    for (const auto& [work, entry] : document.at("work").items()) {
      if (!entry.is_object()) continue;
      const auto algorithm = entry.find("algorithm"), time = entry.find("us");
      if (algorithm == entry.end() || !algorithm->is_string()) continue;
      Choice choice{.algorithm = algorithm->get<std::string>(), .size_key = size_key_of(entry)};
      if (time != entry.end() && time->is_number()) choice.microseconds = time->get<double>();
      choices.emplace(work, std::move(choice));
    }
  } catch (const Error&) {
    return {};
  } catch (const json::exception&) {  // a member of another type
    return {};
  }
  return choices;
}

void TuningCache::write(const Choices& choices) const {
  json works = json::object();
  for (const auto& [work, choice] : choices) {
    json entry = {{"algorithm", choice.algorithm}};
    if (choice.microseconds) entry["us"] = *choice.microseconds;
    if (!choice.size_key.family.empty()) {
      entry["family"] = choice.size_key.family;
      entry["size"] = choice.size_key.size;
    }
    works[work] = std::move(entry);
  }
  std::error_code error;
  fs::create_directories(file_.parent_path(), error);
  if (error) return;
  try {
    write_json(file_, {{"schema", kSchema}, {"machine", machine_json(machine_)}, {"work", std::move(works)}});
  } catch (const Error&) {  // a full disk, no permission: measured again next time
  }
}

void TuningCache::trust(const std::optional<Stamp>& stamp) {
  const bool is_settled = stamp && fs::file_time_type::clock::now() - stamp->written > kSettled;
  read_ = is_settled ? stamp : std::nullopt;
}

TuningCache::Choices& TuningCache::choices() {
  if (const std::optional<Stamp> now = stamp(); !now || now != read_) {
    choices_ = now ? read() : Choices();
    trust(now);
  }
  return choices_;
}

std::optional<std::string> TuningCache::find(const std::string& work) {
  const Choices& known = choices();
  const auto found = known.find(work);
  return found == known.end() ? std::nullopt : std::optional(found->second.algorithm);
}

std::vector<TunedSize> TuningCache::find_family(const std::string& family) {
  std::vector<TunedSize> tuned;
  for (const auto& [work, choice] : choices())
    if (!family.empty() && choice.size_key.family == family) tuned.push_back({choice.algorithm, choice.size_key.size});
  return tuned;
}

void TuningCache::store(const std::string& work, const std::string& algorithm, double microseconds,
                        const SizeKey& size_key) {
  Choices& all = choices();  // another process may have written since
  all[work] = {.algorithm = algorithm, .microseconds = microseconds, .size_key = size_key};
  write(all);
  trust(stamp());
}

}  // namespace headroom::tune
