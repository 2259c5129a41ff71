#include "pipelines/schedules/sampler_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr std::array<const char*, LinearForm::kColumns> kColumnNames = {"latents",   "history_1", "history_2",
                                                                        "history_3", "output",    "noise"};

// The random stream, of an image's seed, of the first call: earlier streams are used by the initial noise.
constexpr std::int64_t kFirstStream = 16;

std::string coefficient_name(std::size_t state, std::size_t column) {
  return fmt::format("{}_from_{}", kColumnNames.at(state), kColumnNames.at(column));
}

bool is_input(const SamplerTables& tables, std::size_t state, std::size_t column) {
  return tables.uses_state(state) && !tables.is_always(state, column, 0) && !tables.is_always(state, column, 1);
}

template <class Do>
void for_each_coefficient(const SamplerTables& tables, const Do& act) {
  for (std::size_t state = 0; state < LinearForm::kStates; ++state)
    for (std::size_t column = 0; column < LinearForm::kColumns; ++column)
      if (is_input(tables, state, column)) act(state, column);
}

}  // namespace

SamplerValues add_sampler(Graph& graph, const SamplerTables& tables, Shape shape) {
  const TensorType sample{.shape = std::move(shape)};
  SamplerValues values;
  for (std::size_t state = 0; state < LinearForm::kStates; ++state) {
    values.coefficients[state].fill(kNoValue);
    if (tables.uses_state(state)) values.states[state] = graph.add_state(kColumnNames.at(state), sample);
  }
  Shape by_call{tables.calls()};  // [calls, 1, 1, ...]
  for (int axis = 0; axis < sample.shape.rank(); ++axis) by_call.push_back(1);
  for_each_coefficient(tables, [&](std::size_t state, std::size_t column) {
    values.coefficients[state][column] = graph.add_input(coefficient_name(state, column), TensorType{.shape = by_call});
  });
  if (tables.uses_noise()) {
    values.seeds = graph.add_input("seeds", TensorType{.dtype = DType::kI64, .shape = {sample.shape[0]}});
    values.noise_streams =
        graph.add_input("noise_streams", TensorType{.dtype = DType::kI64, .shape = {tables.calls()}});
  }
  return values;
}

void build_sampler_update(Builder& b, const SamplerTables& tables, const SamplerValues& values, ValueId output,
                          ValueId counter, ValueId sample) {
  SamplerCalls calls{.of_table = [&](ValueId table) { return b.row(table, counter); }};
  if (values.seeds != kNoValue) {
    const ValueId stream = b.row(values.noise_streams, counter);  // []
    const Shape of_one(b.shape(values.latents()).dims().subspan(1));
    calls.noise = b.random(values.seeds, stream, of_one);  // [images, ...]
  }
  build_sampler_update(b, tables, values, output, calls, sample);
}

ValueId build_sampler_update(Builder& b, const SamplerTables& tables, const SamplerValues& values, ValueId output,
                             const SamplerCalls& calls, ValueId sample) {
  std::array<ValueId, LinearForm::kColumns> columns{};
  std::ranges::copy(values.states, columns.begin());
  if (sample != kNoValue) columns[0] = sample;
  columns[LinearForm::kOutput] = output;
  columns[LinearForm::kNoise] = calls.noise;
  ValueId next_sample = kNoValue;
  for (std::size_t state = 0; state < LinearForm::kStates; ++state) {
    if (values.states[state] == kNoValue) continue;
    ValueId next = kNoValue;
    for (std::size_t column = 0; column < LinearForm::kColumns; ++column) {
      if (tables.is_always(state, column, 0)) continue;
      ValueId part = columns[column];
      if (const ValueId table = values.coefficients[state][column]; table != kNoValue)
        part = b.mul(part, calls.of_table(table));
      next = next == kNoValue ? part : b.add(next, part);
    }
    HR_CHECK(next != kNoValue);
    b.set_next(values.states[state], next);
    if (state == 0) next_sample = next;
  }
  return next_sample;
}

std::int64_t noise_stream_of_call(std::int64_t call) { return kFirstStream + call; }

void set_sampler_inputs(Session& session, const SamplerTables& tables) {
  const Graph& graph = session.program().graph;
  for_each_coefficient(tables, [&](std::size_t state, std::size_t column) {
    const std::string name = coefficient_name(state, column);
    HostTensor numbers(DType::kF32, graph.type(graph.find(ValueKind::kInput, name)).shape);
    for (std::size_t call = 0; call < tables.next.size(); ++call)
      numbers.set(static_cast<std::int64_t>(call), tables.next[call][state].of[column]);
    session.set_input(name, numbers);
  });
  if (!tables.uses_noise()) return;
  HostTensor streams(DType::kI64, {tables.calls()});
  for (std::int64_t call = 0; call < tables.calls(); ++call)
    streams.as<std::int64_t>()[static_cast<std::size_t>(call)] = noise_stream_of_call(call);
  session.set_input("noise_streams", streams);
}

void start_sampler(Session& session, std::span<const std::uint64_t> seeds) {
  const Graph& graph = session.program().graph;
  for (std::size_t state = 1; state < LinearForm::kStates; ++state)
    if (const ValueId kept = graph.find(ValueKind::kState, kColumnNames.at(state)); kept != kNoValue)
      session.set_state(kColumnNames.at(state), HostTensor(DType::kF32, graph.type(kept).shape));
  if (graph.find(ValueKind::kInput, "seeds") == kNoValue) return;
  HostTensor keys(DType::kI64, {static_cast<std::int64_t>(seeds.size())});
  std::ranges::transform(seeds, keys.as<std::int64_t>().begin(),
                         [](std::uint64_t seed) { return static_cast<std::int64_t>(seed); });
  session.set_input("seeds", keys);
}

}  // namespace headroom
