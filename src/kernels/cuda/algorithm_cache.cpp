#include "kernels/cuda/algorithm_cache.hpp"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/user_cache.hpp"

namespace headroom::cuda {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kSchema = "headroom.algorithms/1";

json machine_json(const AlgorithmCache::Machine& machine) {
  return {{"device", machine.device}, {"driver", machine.driver}, {"library", machine.library}};
}

/// The file's content, or an empty one in its place.
json read_or_begin(const fs::path& file, const AlgorithmCache::Machine& machine) {
  json empty = {{"schema", kSchema}, {"machine", machine_json(machine)}, {"work", json::object()}};
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return empty;
  try {
    json document = read_json(file);
    const bool is_ours = document.is_object() && document.value("schema", "") == kSchema &&
                         document.value("machine", json()) == empty["machine"] &&
                         document.value("work", json()).is_object();
    return is_ours ? document : empty;
  } catch (const Error&) {
    return empty;
  } catch (const json::exception&) {  // a member of another type
    return empty;
  }
}

}  // namespace

AlgorithmCache::AlgorithmCache(const fs::path& folder, Machine machine)
    : machine_(std::move(machine)),
      file_(folder / (Hasher().add(kSchema).add(dump_json(machine_json(machine_))).hex() + ".json")) {}

std::optional<AlgorithmCache> AlgorithmCache::of_user(Machine machine) {
  const std::optional<fs::path> folder = user_cache_folder("algorithms");
  if (!folder) return std::nullopt;
  return AlgorithmCache(*folder, std::move(machine));
}

std::optional<std::string> AlgorithmCache::find(const std::string& work) const {
  const json document = read_or_begin(file_, machine_);
  const auto entry = document["work"].find(work);
  if (entry == document["work"].end() || !entry->is_object()) return std::nullopt;
  const auto algorithm = entry->find("algorithm");
  if (algorithm == entry->end() || !algorithm->is_string()) return std::nullopt;
  return algorithm->get<std::string>();
}

void AlgorithmCache::store(const std::string& work, const std::string& algorithm, double microseconds) const {
  json document = read_or_begin(file_, machine_);  // again: another process may have written meanwhile
  document["work"][work] = {{"algorithm", algorithm}, {"us", microseconds}};
  std::error_code error;
  fs::create_directories(file_.parent_path(), error);
  if (error) return;
  try {
    write_json(file_, document);
  } catch (const Error&) {  // a full disk, no permission: measured again next time
  }
}

}  // namespace headroom::cuda
