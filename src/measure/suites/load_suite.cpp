#include "measure/suites/load_suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "backends/device.hpp"
#include "base/files/leftovers.hpp"
#include "base/tensors/random.hpp"
#include "base/text/json.hpp"
#include "io/checkpoint.hpp"
#include "measure/results/describe.hpp"
#include "measure/results/timing.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLink = "page-locked memory";

/// A temporary checkpoint, deleted with the object.
class TemporaryCheckpoint {
 public:
  explicit TemporaryCheckpoint(std::uint64_t bytes)
      : made_(fs::temp_directory_path() / "headroom-load"), folder_(made_.path()) {
    write_json(folder_ / "config.json", nlohmann::json::object());
    std::vector<TensorSpec> specs = list_tensors(bytes);
    SafetensorsWriter writer(folder_ / "model.safetensors", specs);
    std::vector<std::uint16_t> block(std::size_t{4} << 20);
    store_normal(block.data(), DType::kBF16, block.size(), {.deviation = 0.02F});
    for (const TensorSpec& spec : specs)
      for (std::uint64_t done = 0; done < spec.size_bytes();) {
        const auto part = std::min<std::uint64_t>(spec.size_bytes() - done, block.size() * sizeof(std::uint16_t));
        writer.write(spec.name, std::as_bytes(std::span(block)).first(part));
        done += part;
      }
    writer.commit();
  }
  [[nodiscard]] Checkpoint open() const { return Checkpoint::open(folder_); }

 private:
  /// The matrices of a 12 B transformer's blocks, repeated cyclically, and a last one that fills up to `bytes`.
  static std::vector<TensorSpec> list_tensors(std::uint64_t bytes) {
    constexpr std::int64_t kDim = 3072;
    constexpr std::int64_t kRowsOfMatrices[] = {kDim, kDim, kDim, 4 * kDim, 7 * kDim, 5 * kDim};
    std::vector<TensorSpec> specs;
    for (std::uint64_t left = bytes / (2 * kDim); left > 0;) {
      const std::int64_t rows =
          std::min(kRowsOfMatrices[specs.size() % std::size(kRowsOfMatrices)], static_cast<std::int64_t>(left));
      specs.push_back({.name = fmt::format("x{}.weight", specs.size()), .dtype = DType::kBF16, .shape = {rows, kDim}});
      left -= static_cast<std::uint64_t>(rows);
    }
    return specs;
  }

  PartialFolder made_;
  fs::path folder_;
};

Result make_result(const Backend& backend, const std::string& name, std::uint64_t bytes, Trials trials) {
  trials.warmup_stable = true;  // the one load before them only allocates staging buffers: there is nothing to settle
  Result result = describe_kernel(backend, name, "load", {{"from", name}, {"bytes", bytes}});
  result.trials.push_back(make_series("load", trials));
  return result;
}

}  // namespace

ResultFile bench_load(Backend& backend, const LoadBenchOptions& options) {
  ResultFile file = begin_result_file();
  const std::unique_ptr<Stream> stream = backend.make_stream();
  const Protocol protocol = {
      .warmup_min = 1, .warmup_max = 1, .trials = options.trials, .gpu_pci_bus_id = pci_bus_id_of(backend)};
  const auto time = [&](const auto& copy) {
    const auto copy_all = [&] {
      copy();
      stream->synchronize();
    };
    return measure_callable(copy_all, protocol);
  };
  constexpr std::uint64_t kMostPageLocked = std::uint64_t{512} << 20;
  const std::uint64_t link_bytes = std::min(options.bytes, kMostPageLocked);
  if (backend.host_link_ms(link_bytes)) {
    const auto link_ms = [&] { return backend.host_link_ms(link_bytes).value(); };
    file.results.push_back(make_result(backend, kLink, link_bytes, measure_self_timed(link_ms, protocol)));
  }
  {
    const std::uint64_t bytes = link_bytes;
    std::vector<std::byte> host(bytes);
    store_normal(host.data(), DType::kBF16, bytes / 2, {.deviation = 0.02F});
    const Buffer device = backend.allocate(bytes, MemoryCategory::kWeights);
    file.results.push_back(make_result(
        backend, "memory", bytes, time([&] { backend.copy_from_host(*stream, device.at(), host.data(), bytes); })));
  }
  const TemporaryCheckpoint written(options.bytes);
  const Checkpoint checkpoint = written.open();
  file.results.push_back(
      make_result(backend, "mapped file", checkpoint.total_bytes(), time([&] {
                    std::vector<Buffer> weights;
                    for (const TensorSpec& tensor : checkpoint.tensors()) {
                      weights.push_back(backend.allocate(tensor.size_bytes(), MemoryCategory::kWeights));
                      backend.copy_from_host(*stream, weights.back().at(), checkpoint.bytes(tensor.name).data(),
                                             tensor.size_bytes());
                      checkpoint.release(tensor.name);
                    }
                    stream->synchronize();
                  })));
  return file;
}

Printout to_load_table(const ResultFile& file) {
  Table table;
  table.add_column(Column{.header = "weights from", .align = Align::kLeft});
  table.add_column(Column{.header = "bytes", .priority = 1});
  table.add_column(Column{.header = "trials", .priority = 2});
  table.add_column(Column{.header = "a load", .fields = {"load_ms"}});
  table.add_column(Column{.header = "95% interval", .fields = {"load_low_ms", "load_high_ms"}});
  table.add_column(Column{.header = "GB/s"});
  table.add_column(Column{.header = "of the link"});
  double link = 0;
  for (const Result& result : file.results) {
    const auto bytes = result.subject.request.at("bytes").get<std::int64_t>();
    const Summary& load = series_of(result, "load").statistics;
    const double rate = static_cast<double>(bytes) / load.median * 1e-6;
    if (result.name == kLink) link = rate;
    table.add_row({result.name, bytes_cell(bytes), count_cell(static_cast<std::int64_t>(load.n)), ms_cell(load.median),
                   interval_ms_cell(load.median_interval), number_cell(rate, format_significant(rate)),
                   link == 0 ? no_value() : number_cell(rate / link, fmt::format("{:.2f}", rate / link))});
  }
  Printout printout(std::move(table));
  printout.add(remark_on_few_trials(file.results, "load", ""));
  printout.add(remark_on_unsettled(file.results));
  return printout;
}

}  // namespace headroom
