#include "measure/suites/attention_suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/device.hpp"
#include "base/clock.hpp"
#include "base/tensors/random.hpp"
#include "ir/ranks/collectives.hpp"
#include "measure/results/describe.hpp"
#include "measure/results/timing.hpp"
#include "measure/tables/table.hpp"
#include "plan/plan.hpp"
#include "run/ranks.hpp"
#include "run/ring_attention.hpp"
#include "run/session/session.hpp"

namespace headroom {
namespace {

constexpr const char* kSeries = "attention";
constexpr int kWarmup = 2;
/// Algorithms are timed for at most as many tokens: of a million, each candidate would take seconds.
constexpr std::int64_t kMostTimedTokens = 32768;

/// The sessions of all ranks for one length.
class SharedAttention {
 public:
  SharedAttention(Backend& backend, const RingAttention& attention)
      : attention_(attention), ranks_(backend, attention.ranks) {
    const std::size_t before = backend.memory_use().total;
    std::deque<Graph> graphs;
    std::vector<const Graph*> compared;
    for (int rank = 0; rank < attention.ranks; ++rank)
      compared.push_back(&graphs.emplace_back(build_ring_attention(attention, rank)));
    require_equal_collectives(compared);
    for (int rank = 0; rank < attention.ranks; ++rank)
      ranks_.run_on(rank, [&] { open(graphs[static_cast<std::size_t>(rank)], rank); });
    bytes_ = backend.memory_use().total - before;
  }

  double run_ms() {
    const auto start = std::chrono::steady_clock::now();
    ranks_.run([&](int rank) { sessions_[static_cast<std::size_t>(rank)].run(); });
    return milliseconds_since(start);
  }

  [[nodiscard]] Result result(const Backend& backend, Trials trials) const {
    const std::string name =
        fmt::format("{} tokens{}, {} of {}, {}", attention_.tokens, attention_.causal ? ", causal" : "",
                    attention_.heads, attention_.head_dim, format_count(attention_.ranks, "rank"));
    Result result = describe_kernel(backend, name, "attention",
                                    {{"tokens", attention_.tokens},
                                     {"heads", attention_.heads},
                                     {"head_dim", attention_.head_dim},
                                     {"causal", attention_.causal},
                                     {"dtype", name_of(attention_.dtype)},
                                     {"ranks", attention_.ranks},
                                     {"flops", attention_.flops()}});
    result.trials.push_back(make_series(kSeries, trials));
    result.memory = MemoryReport{};
    result.memory->peak_bytes = static_cast<std::int64_t>(bytes_);
    return result;
  }

 private:
  void open(const Graph& graph, int rank) {
    DeviceTarget target = ranks_.target(rank);
    const PlanOptions options{.arena = true, .graph = obstacle_to(Capability::kRecording, target).empty()};
    if (attention_.tokens > kMostTimedTokens) {
      RingAttention timed = attention_;
      timed.tokens = kMostTimedTokens;
      static_cast<void>(plan(build_ring_attention(timed, rank), target, options));
      target.new_work = NewWork::kTakeOver;
    }
    Session& session =
        sessions_.emplace_back(std::make_shared<Program>(plan(graph, target, options)), ranks_.backend(rank));
    std::uint64_t stream = 3 * static_cast<std::uint64_t>(rank);
    for (const char* input : {"q", "k", "v"}) session.set_input_normal(input, {.seed = 1, .stream = stream++});
    session.stream().synchronize();
  }

  RingAttention attention_;
  Ranks ranks_;
  std::deque<Session> sessions_;
  std::size_t bytes_ = 0;  // of rank 0, or on a CPU of all
};

struct Row {
  std::int64_t tokens = 0, heads = 0, ranks = 1;
  double flops = 0, ms = 0;
};
Row row_of(const Result& result) {
  const nlohmann::json& request = result.subject.request;
  return {.tokens = request.at("tokens").get<std::int64_t>(),
          .heads = request.at("heads").get<std::int64_t>(),
          .ranks = request.at("ranks").get<std::int64_t>(),
          .flops = request.at("flops").get<double>(),
          .ms = series_of(result, kSeries).statistics.median};
}

}  // namespace

ResultFile bench_attention(Backend& backend, const AttentionBenchOptions& options,
                           const std::function<void(std::int64_t done)>& on_progress) {
  ResultFile file = begin_result_file();
  const bool has_bf16 = obstacle_to(Capability::kBf16Units, backend.properties().target).empty();
  for (std::size_t i = 0; i < options.tokens.size(); ++i) {
    if (on_progress) on_progress(static_cast<std::int64_t>(i));
    std::vector<std::unique_ptr<SharedAttention>> sides;
    for (const int ranks : {1, options.ranks}) {
      if (ranks == 1 && !sides.empty()) continue;
      sides.push_back(
          std::make_unique<SharedAttention>(backend, RingAttention{.tokens = options.tokens[i],
                                                                   .heads = options.heads,
                                                                   .head_dim = options.head_dim,
                                                                   .causal = options.causal,
                                                                   .dtype = has_bf16 ? DType::kBF16 : DType::kF32,
                                                                   .ranks = ranks}));
    }
    std::vector<Trials> trials(sides.size());
    std::vector<ConditionsProbe> probes;
    for (std::size_t side = 0; side < sides.size(); ++side) probes.emplace_back(pci_bus_id_of(backend));
    for (int trial = -kWarmup; trial < options.trials; ++trial)
      for (std::size_t side = 0; side < sides.size(); ++side) {
        probes[side].begin();
        const double milliseconds = sides[side]->run_ms();
        if (trial < 0) {
          ++trials[side].warmup;
          continue;
        }
        probes[side].add_trial();
        trials[side].wall_ms.push_back(milliseconds);
      }
    for (std::size_t side = 0; side < sides.size(); ++side) {
      trials[side].conditions = probes[side].take();
      file.results.push_back(sides[side]->result(backend, std::move(trials[side])));
    }
  }
  return file;
}

Printout to_attention_table(const ResultFile& file) {
  Table table;
  table.add_column(Column{.header = "tokens"});
  table.add_column(Column{.header = "ranks"});
  table.add_column(Column{.header = "time", .fields = {"time_ms"}});
  table.add_column(Column{.header = "95% interval", .priority = 1, .fields = {"time_low_ms", "time_high_ms"}});
  table.add_column(Column{.header = "TFLOP/s a rank"});
  table.add_column(Column{.header = "of one rank"});
  table.add_column(Column{.header = "memory a rank", .fields = {"memory_bytes"}});
  table.add_column(Column{.header = "scores would take", .priority = 2, .fields = {"scores_bytes"}});
  double alone = 0;
  for (const Result& result : file.results) {
    const Row row = row_of(result);
    const Summary& times = series_of(result, kSeries).statistics;
    const double rate = row.flops / static_cast<double>(row.ranks) / row.ms * 1e-9;
    if (row.ranks == 1) alone = rate;
    const std::int64_t score_bytes = row.heads * row.tokens * row.tokens / row.ranks * 2;
    table.add_row({count_cell(row.tokens), count_cell(row.ranks), ms_cell(row.ms),
                   interval_ms_cell(times.median_interval), number_cell(rate, format_significant(rate)),
                   alone == 0 ? no_value() : number_cell(rate / alone, fmt::format("{:.3f}", rate / alone)),
                   bytes_cell(result.memory->peak_bytes), bytes_cell(score_bytes)});
  }
  Printout printout(std::move(table));
  printout.add(remark_on_few_trials(file.results, kSeries, ""));
  printout.add(remark_on_unsettled(file.results));
  return printout;
}

}  // namespace headroom
