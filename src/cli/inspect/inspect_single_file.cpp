#include "cli/inspect/inspect_single_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "io/network_family.hpp"
#include "io/weights_files.hpp"
#include "pipelines/pipeline.hpp"
#include "run/single_file.hpp"

namespace headroom {
namespace {

/// Adds the sentence of an Error to the notes instead of throwing it.
template <class Body>
void note_errors(FileReport& report, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    report.notes.emplace_back(error.what());
  }
}

void add_network(const SingleFile& file, const SingleFile::Network& network, FileReport& report) {
  const std::string part = network.role.empty() ? network.class_name : network.role;
  const SingleFile::InferredConfig inferred = file.infer(network, {});
  for (const auto& [key, value] : inferred.values.items())
    report.configuration.push_back({.part = part, .key = key, .value = value, .source = inferred.sources.at(key)});
  if (const std::vector<std::string> unread = file.unread(network, {}); !unread.empty())
    report.notes.push_back(fmt::format("{} of its {} {} not read: {}", format_count(std::ssize(unread), "tensor"), part,
                                       unread.size() == 1 ? "is" : "are", join_some(unread)));
}

}  // namespace

FileReport report_single_file(const std::filesystem::path& path, const WeightsListing& listing) {
  FileReport report;
  const std::vector<NetworkPart> parts = recognize_networks(listing.tensors);
  if (std::ranges::all_of(parts, [](const NetworkPart& part) { return part.class_name.empty(); })) return report;
  note_errors(report, [&] {
    const SingleFile file = SingleFile::open(path);
    for (const SingleFile::Network& network : file.networks())
      note_errors(report, [&] { add_network(file, network, report); });
    if (file.family() == nullptr) return;
    const nlohmann::json own = values_of(*file.family(), "scheduler"), scheduler = file.scheduler();
    for (const auto& [key, value] : scheduler.items()) {
      const bool is_own = own.contains(key) && own.at(key) == value;
      report.configuration.push_back({.part = "scheduler",
                                      .key = key,
                                      .value = value,
                                      .source = is_own ? std::string(file.family()->name) : "the file's tensors"});
    }
    require_whole_pipeline(path.native(), {});
  });
  return report;
}

}  // namespace headroom
