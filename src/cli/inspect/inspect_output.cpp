#include "cli/inspect/inspect_output.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text/format.hpp"
#include "base/text/printable.hpp"
#include "io/network_family.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostMetadata = 40;  // in a table

struct OfDType {
  bool is_read = true;
  std::int64_t tensors = 0, elements = 0;
  std::uint64_t size_bytes = 0;
};

std::map<std::string, OfDType> sum_by_dtype(const WeightsListing& listing) {
  std::map<std::string, OfDType> sums;
  for (const StoredTensor& tensor : listing.tensors) {
    OfDType& sum = sums[tensor.dtype];
    sum.is_read = tensor.is_read;
    ++sum.tensors;
    sum.elements += tensor.shape.numel();
    sum.size_bytes += tensor.size_bytes;
  }
  return sums;
}

/// By size, then by name.
std::vector<const StoredTensor*> largest_of(const WeightsListing& listing, std::size_t count) {
  std::vector<const StoredTensor*> tensors;
  for (const StoredTensor& tensor : listing.tensors) tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const StoredTensor* tensor) { return tensor->size_bytes; });
  tensors.resize(std::min(count, tensors.size()));
  return tensors;
}

std::uint64_t tensor_bytes(const WeightsListing& listing) {
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : listing.tensors) bytes += tensor.size_bytes;
  return bytes;
}

std::string shown_share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string shown_name(const std::string& name) { return shortened(printable_name(name), 200); }

std::string shown_value(const nlohmann::json& value) {
  if (value.is_string()) return shortened(printable_name(value.get_ref<const std::string&>()), 100);
  if (!value.is_object()) return value.dump();
  std::vector<std::string> first;
  for (const nlohmann::json& element : value["first"]) first.push_back(shown_value(element));
  const std::string more = value["count"] > first.size() ? ", ..." : "";
  return shortened(fmt::format("{} of {}: {}{}", value["count"].get<std::uint64_t>(), value["type"].get<std::string>(),
                               fmt::join(first, ", "), more),
                   100);
}

Cell cell_of_bytes(std::uint64_t bytes) { return bytes_cell(static_cast<std::int64_t>(bytes)); }

Table network_table(const WeightsListing& listing) {
  Table table;
  table.add_column("network", Align::kLeft);
  table.add_column("names of", Align::kLeft);
  table.add_column("prefix", Align::kLeft);
  table.add_column("tensors");
  table.add_column("bytes");
  for (const NetworkPart& part : recognize_networks(listing.tensors))
    table.add_row({part.network, part.names.empty() ? "-" : part.names,
                   part.prefix.empty() ? "-" : shown_name(part.prefix), count_cell(part.tensors),
                   cell_of_bytes(part.size_bytes)});
  return table;
}

Table memory_table(const WeightsListing& listing) {
  Table table;
  table.add_column("memory of weights", Align::kLeft);
  table.add_column("in bf16");
  table.add_column("matrices in 8 bits");
  table.add_column("packed");
  for (const NetworkPart& part : recognize_networks(listing.tensors))
    table.add_row({part.network, cell_of_bytes(part.memory.bf16), cell_of_bytes(part.memory.eight_bits),
                   part.memory.has_blocks ? cell_of_bytes(part.memory.packed) : Cell("-")});
  return table;
}

Table dtype_table(const WeightsListing& listing) {
  Table table;
  table.add_column("dtype", Align::kLeft);
  table.add_column("tensors");
  table.add_column("elements");
  table.add_column("bytes");
  table.add_column("share");
  for (const auto& [dtype, sum] : sum_by_dtype(listing))
    table.add_row({sum.is_read ? dtype : dtype + " (not read)", count_cell(sum.tensors), count_cell(sum.elements),
                   cell_of_bytes(sum.size_bytes), shown_share(sum.size_bytes, tensor_bytes(listing))});
  return table;
}

Table largest_table(const WeightsListing& listing, std::size_t largest) {
  Table table;
  table.add_column("largest tensors", Align::kLeft);
  table.add_column("dtype", Align::kLeft);
  table.add_column("shape", Align::kLeft);
  table.add_column("bytes");
  for (const StoredTensor* tensor : largest_of(listing, largest))
    table.add_row(
        {shown_name(tensor->name), tensor->dtype, tensor->shape.to_string(), cell_of_bytes(tensor->size_bytes)});
  return table;
}

std::vector<std::string> all_notes(const WeightsListing& listing, const FileReport& report) {
  std::vector<std::string> notes = listing.notes;
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  return notes;
}

Table configuration_table(const FileReport& report) {
  Table table;
  table.add_column("configuration", Align::kLeft);
  table.add_column("value", Align::kLeft);
  table.add_column("from", Align::kLeft);
  for (const ConfigValue& each : report.configuration)
    table.add_row(
        {fmt::format("{}.{}", each.part, each.key), shortened(printable_name(each.value.dump()), 100), each.source});
  return table;
}

Table metadata_table(const WeightsListing& listing) {
  Table table;
  table.add_column("metadata", Align::kLeft);
  table.add_column("value", Align::kLeft);
  for (std::size_t i = 0; i < std::min(kMostMetadata, listing.metadata.size()); ++i)
    table.add_row({shown_name(listing.metadata[i].first), shown_value(listing.metadata[i].second)});
  return table;
}

}  // namespace

Printout inspect_tables(const WeightsListing& listing, std::size_t largest, const FileReport& report) {
  std::int64_t elements = 0;
  for (const StoredTensor& tensor : listing.tensors) elements += tensor.shape.numel();
  std::string head;
  for (const std::filesystem::path& file : listing.files) head += printable_name(file.native()) + "\n";
  head += fmt::format("{}, {}, {}, {}\n\n", listing.format, format_bytes(listing.file_bytes),
                      format_count(std::ssize(listing.tensors), "tensor"), format_count(elements, "element"));
  Printout printout;
  printout.add(std::move(head));
  const auto add = [&](Table table) {
    if (table.is_empty()) return;
    printout.add(std::move(table));
    printout.add(std::string("\n"));
  };
  add(network_table(listing));
  add(memory_table(listing));
  add(dtype_table(listing));
  add(configuration_table(report));
  add(largest_table(listing, largest));
  add(metadata_table(listing));
  if (listing.metadata.size() > kMostMetadata)
    printout.add(fmt::format("and {} more metadata, which --json lists\n", listing.metadata.size() - kMostMetadata));
  std::string notes;
  for (const std::string& note : all_notes(listing, report)) notes += fmt::format("note: {}\n", printable_name(note));
  printout.add(std::move(notes));
  return printout;
}

Printout parts_tables(const std::map<std::string, WeightsListing>& parts) {
  Table table;
  table.add_column("part", Align::kLeft);
  table.add_column("network", Align::kLeft);
  table.add_column("names of", Align::kLeft);
  table.add_column("dtypes", Align::kLeft);
  table.add_column("tensors");
  table.add_column("bytes");
  std::string notes;
  for (const auto& [part, listing] : parts) {
    std::vector<std::string> dtypes;
    for (const auto& [dtype, sum] : sum_by_dtype(listing)) dtypes.push_back(dtype);
    for (const NetworkPart& network : recognize_networks(listing.tensors))
      table.add_row({shown_name(part), network.network, network.names.empty() ? "-" : network.names,
                     fmt::format("{}", fmt::join(dtypes, ", ")), count_cell(network.tensors),
                     cell_of_bytes(network.size_bytes)});
    for (const std::string& note : listing.notes) notes += fmt::format("note: {}\n", printable_name(note));
  }
  Printout printout;
  printout.add(std::move(table));
  printout.add(std::string("\n") + notes);
  return printout;
}

nlohmann::json inspect_json(const WeightsListing& listing, std::size_t largest, const FileReport& report) {
  nlohmann::json files = nlohmann::json::array(), networks = nlohmann::json::array(), dtypes = nlohmann::json::array(),
                 tensors = nlohmann::json::array();
  for (const std::filesystem::path& file : listing.files) files.push_back(well_formed(file.native()));
  for (const NetworkPart& part : recognize_networks(listing.tensors))
    networks.push_back({{"network", part.network},
                        {"names", part.names},
                        {"prefix", well_formed(part.prefix)},
                        {"tensors", part.tensors},
                        {"bytes", part.size_bytes},
                        {"memory",
                         {{"bf16", part.memory.bf16},
                          {"8_bits", part.memory.eight_bits},
                          {"packed", part.memory.has_blocks ? nlohmann::json(part.memory.packed) : nullptr}}}});
  for (const auto& [dtype, sum] : sum_by_dtype(listing))
    dtypes.push_back({{"dtype", dtype},
                      {"read", sum.is_read},
                      {"tensors", sum.tensors},
                      {"elements", sum.elements},
                      {"bytes", sum.size_bytes}});
  for (const StoredTensor* tensor : largest_of(listing, largest))
    tensors.push_back({{"name", well_formed(tensor->name)},
                       {"dtype", tensor->dtype},
                       {"shape", tensor->shape.dims()},
                       {"bytes", tensor->size_bytes}});
  nlohmann::json configuration = nlohmann::json::array();
  for (const ConfigValue& each : report.configuration)
    configuration.push_back({{"part", each.part}, {"key", each.key}, {"value", each.value}, {"from", each.source}});
  nlohmann::json notes = nlohmann::json::array();
  for (const std::string& note : all_notes(listing, report)) notes.push_back(well_formed(note));
  nlohmann::json metadata = nlohmann::json::object();
  for (const auto& [key, value] : listing.metadata) metadata[key] = value;
  return {{"format", listing.format},
          {"files", std::move(files)},
          {"bytes", listing.file_bytes},
          {"tensors", listing.tensors.size()},
          {"networks", std::move(networks)},
          {"dtypes", std::move(dtypes)},
          {"largest", std::move(tensors)},
          {"metadata", std::move(metadata)},
          {"configuration", std::move(configuration)},
          {"notes", std::move(notes)}};
}

}  // namespace headroom
