// Updates of params while sessions hold the folded weights.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/cuda/gpu_test.hpp"
#include "base/out_of_memory.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/folding_graph.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Weights that are unchanged params, merged, cast, and quantized to the device's type; two of each with equal
/// foldings.
std::string text_for(const Backend& backend) {
  return fmt::format(R"(graph updated {{
  param %a: f32[16, 8]
  param %b: bf16[16, 8]
  param %c: bf16[16, 8]
  param %d: bf16[16, 8]
  param %e: bf16[16]
  %5: bf16[32, 8] = concat(%b, %c) {{axis = 0}}
  %6: bf16[32, 8] = concat(%c, %d) {{axis = 0}}
  %7: f32[16, 8] = cast(%b) {{dtype = f32}}
  %8: f32[16, 8] = cast(%c) {{dtype = f32}}
  %9: {0}[16, 8], %10: f32[16] = quantize(%b) {{dtype = {0}}}
  %11: {0}[32, 8], %12: f32[32] = quantize(%5) {{dtype = {0}}}
  output a = %a
  output d = %d
  output e = %e
  output bc = %5
  output cd = %6
  output b32 = %7
  output c32 = %8
  output q = %9
  output q_scale = %10
  output merged_q = %11
  output merged_scale = %12
}})",
                     backend.properties().target.device == DeviceKind::kCuda ? "f8e4m3" : "i8");
}

Checkpoint make_updated_checkpoint() {
  return Checkpoint::random(nlohmann::json::object(),
                            {{.name = "a", .dtype = DType::kF32, .shape = {16, 8}},
                             {.name = "b", .dtype = DType::kBF16, .shape = {16, 8}},
                             {.name = "c", .dtype = DType::kBF16, .shape = {16, 8}},
                             {.name = "d", .dtype = DType::kBF16, .shape = {16, 8}},
                             {.name = "e", .dtype = DType::kBF16, .shape = {16}}},
                            7);
}

HostView view(const HostTensor& tensor) {
  return {.dtype = tensor.dtype(), .shape = tensor.shape(), .bytes = tensor.bytes()};
}

/// A term that owns its tensors.
ParamTerm term(const HostTensor& up, const HostTensor& down, double scale) {
  const auto kept = std::make_shared<std::pair<HostTensor, HostTensor>>(up, down);
  return {.factors = {.up = view(kept->first), .down = view(kept->second)}, .scale = scale, .owner = kept};
}

ParamTerm random_term(std::uint64_t seed, double scale, std::int64_t rank = 2) {
  HostTensor up = random_f32({16, rank}, 2 * seed);
  for (std::int64_t i = 0; i < up.numel(); ++i) up.set(i, 0.05 * up.at(i));  // weights have a magnitude of 0.02
  return term(up, random_f32({rank, 8}, 2 * seed + 1), scale);
}

/// The elements of a param with its update, in double precision.
std::vector<double> sum(const HostTensor& param, const ParamUpdate& update) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < param.numel(); ++i) values.push_back(param.at(i));
  for (const ParamTerm& term : update.terms) {
    HostTensor up(term.factors.up.dtype, term.factors.up.shape);
    std::ranges::copy(term.factors.up.bytes, up.bytes().begin());
    if (!term.factors.down) {
      for (std::int64_t i = 0; i < up.numel(); ++i) values[static_cast<std::size_t>(i)] += term.scale * up.at(i);
      continue;
    }
    HostTensor down(term.factors.down->dtype, term.factors.down->shape);
    std::ranges::copy(term.factors.down->bytes, down.bytes().begin());
    const std::int64_t rank = down.shape()[0], columns = down.shape()[1];
    for (std::int64_t i = 0; i < param.numel(); ++i)
      for (std::int64_t r = 0; r < rank; ++r)
        values[static_cast<std::size_t>(i)] +=
            term.scale * up.at(i / columns * rank + r) * down.at(r * columns + i % columns);
  }
  return values;
}

std::shared_ptr<const Program> make_program(Backend& backend) {
  return std::make_shared<Program>(plan(parse_graph(text_for(backend)), backend.properties().target, {.arena = true}));
}

std::map<std::string, HostTensor> run(Session& session) {
  session.run();
  std::map<std::string, HostTensor> outputs;
  for (const Output& output : session.program().graph.outputs()) outputs[output.name] = session.output(output.name);
  return outputs;
}

void expect_all_same(const std::map<std::string, HostTensor>& a, const std::map<std::string, HostTensor>& b) {
  for (const auto& [name, tensor] : a) {
    SCOPED_TRACE(name);
    expect_same(tensor, b.at(name));
  }
}

/// Checks that every output is the updated value, rounded once.
void expect_updated(const std::map<std::string, HostTensor>& made, const Checkpoint& checkpoint,
                    const ParamUpdates& updates) {
  std::map<std::string, std::vector<double>> params;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    const auto update = updates.find(name);
    params[name] = sum(checkpoint.read(name), update == updates.end() ? ParamUpdate{} : update->second);
  }
  params["bc"] = params["b"];
  params["bc"].insert(params["bc"].end(), params["c"].begin(), params["c"].end());
  params["cd"] = params["c"];
  params["cd"].insert(params["cd"].end(), params["d"].begin(), params["d"].end());
  params["b32"] = params["b"];
  params["c32"] = params["c"];
  for (const char* name : {"a", "d", "e", "bc", "cd", "b32", "c32"}) {
    const double rounding = made.at(name).dtype() == DType::kF32 ? 1e-6 : 1.0 / 256;
    for (std::int64_t i = 0; i < made.at(name).numel(); ++i) {
      const double expected = params[name][static_cast<std::size_t>(i)];
      ASSERT_NEAR(made.at(name).at(i), expected, 1e-7 + rounding * std::fabs(expected)) << name << " " << i;
    }
  }
  for (const auto& [name, of] : {std::pair("q", "b"), std::pair("merged_q", "bc")}) {
    const HostTensor& scales = made.at(name == std::string("q") ? "q_scale" : "merged_scale");
    for (std::int64_t i = 0; i < made.at(name).numel(); ++i) {
      const double scale = scales.at(i / 8), expected = params[of][static_cast<std::size_t>(i)];
      const bool is_float8 = made.at(name).dtype() == DType::kF8E4M3;
      const double step = is_float8 ? std::max(std::fabs(expected) / 8, scale / 512) : scale;
      ASSERT_NEAR(made.at(name).at(i) * scale, expected, 0.501 * step) << name << " " << i;
    }
  }
}

void update_in_turn(Backend& backend) {
  const Checkpoint checkpoint = make_updated_checkpoint();
  WeightStore store(backend, checkpoint);
  const auto program = make_program(backend);
  Session session(program, store, backend);
  const auto plain = run(session);
  expect_updated(plain, checkpoint, {});
  const std::size_t bytes = backend.memory_use().total;
  std::vector<DevicePointer> places;
  for (const WeightUse& use : program->weights) places.push_back(store.weight(use)->at());

  const ParamUpdates all = {{"a", {.terms = {random_term(1, 0.5)}}},
                            {"b", {.terms = {random_term(2, 1), random_term(3, -0.75, 3)}}},
                            {"c", {.terms = {random_term(4, 1), random_term(5, 2, 3)}}},
                            {"d", {.terms = {random_term(6, 1)}}}};
  EXPECT_THAT(store.update_params(all), ElementsAre("a", "b", "c", "d"));
  expect_updated(run(session), checkpoint, all);

  ParamUpdates fewer = all;
  fewer.erase("b");
  fewer["c"].terms.pop_back();
  const HostTensor shift = random_f32({16}, 9);
  fewer["e"] = {.terms = {{.factors = {.up = view(shift)}, .scale = -0.5}}};
  EXPECT_THAT(store.update_params(fewer), ElementsAre("b", "c", "e"));
  expect_updated(run(session), checkpoint, fewer);

  EXPECT_THAT(store.update_params({}), ElementsAre("a", "c", "d", "e"));
  expect_all_same(plain, run(session));
  EXPECT_EQ(backend.memory_use().total, bytes);
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(store.weight(program->weights[i])->at(), places[i]);
}

TEST(ParamUpdates, AreInEveryWeightAndGoWithoutATrace) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  update_in_turn(*backend);
}

using ParamUpdatesOnAGpu = GpuTest;

TEST_F(ParamUpdatesOnAGpu, AreInEveryWeightAndGoWithoutATrace) { update_in_turn(backend()); }

TEST(ParamUpdates, ThatAreTheSameFoldNothing) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Checkpoint checkpoint = make_updated_checkpoint();
  WeightStore store(*backend, checkpoint);
  Session session(make_program(*backend), store, *backend);
  const ParamUpdates all = {{"b", {.terms = {random_term(2, 1)}}}, {"c", {.terms = {random_term(3, 1)}}}};
  static_cast<void>(store.update_params(all));
  const std::uint64_t allocations = backend->memory_use().allocations;
  EXPECT_THAT(store.update_params(all), IsEmpty());
  EXPECT_EQ(backend->memory_use().allocations, allocations);
}

/// Updates between requests of two sessions on two streams; nothing waits before a result is read.
void update_between_requests(Backend& backend) {
  const Checkpoint checkpoint = make_updated_checkpoint();
  WeightStore store(backend, checkpoint);
  Session first(make_program(backend), store, backend), second(make_program(backend), store, backend);
  const ParamUpdates updates[] = {{},
                                  {{"b", {.terms = {random_term(1, 1)}}}, {"c", {.terms = {random_term(2, 1)}}}},
                                  {{"c", {.terms = {random_term(3, 1)}}}}};
  const auto outputs = [](const Session& session) {
    std::map<std::string, HostTensor> made;
    for (const Output& output : session.program().graph.outputs()) made[output.name] = session.output(output.name);
    return made;
  };
  first.submit();
  for (std::size_t i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    static_cast<void>(store.update_params(updates[(i + 1) % 3]));
    second.submit();
    ASSERT_NO_FATAL_FAILURE(expect_updated(outputs(second), checkpoint, updates[(i + 1) % 3]));
    first.submit();
    ASSERT_NO_FATAL_FAILURE(expect_updated(outputs(first), checkpoint, updates[(i + 1) % 3]));
  }
}

TEST(ParamUpdates, ReachEverySessionInOrder) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  update_between_requests(*backend);
}

TEST_F(ParamUpdatesOnAGpu, ReachEverySessionInOrder) { update_between_requests(backend()); }

TEST(ParamUpdates, AreThereFromTheFirstLoadAndWithChangedParams) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Checkpoint checkpoint = make_updated_checkpoint();
  WeightStore store(*backend, checkpoint);
  const ParamUpdates updates = {{"a", {.terms = {random_term(1, 1)}}}};
  static_cast<void>(store.update_params(updates));
  Session session(make_program(*backend), store, *backend);
  expect_updated(run(session), checkpoint, updates);

  const HostTensor other = random_f32({16, 8}, 20);
  store.change_param("a", other);
  const std::vector<double> expected = sum(other, updates.at("a"));
  const HostTensor made = run(session).at("a");
  for (std::int64_t i = 0; i < made.numel(); ++i)
    ASSERT_NEAR(made.at(i), expected[static_cast<std::size_t>(i)], 1e-6 * (1 + std::fabs(made.at(i))));
  store.restore_param("a");
  expect_updated(run(session), checkpoint, updates);

  const auto value = std::make_shared<const HostTensor>(convert(random_f32({16}, 21), DType::kBF16));
  static_cast<void>(store.update_params({{"e", {.terms = {}, .value = value}}}));
  expect_same(run(session).at("e"), *value);
}

TEST(ParamUpdates, RefuseWhatDoesNotFitAndChangeNothingThen) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Checkpoint checkpoint = make_updated_checkpoint();
  WeightStore store(*backend, checkpoint);
  Session session(make_program(*backend), store, *backend);
  const auto plain = run(session);
  const auto refusal = [&](const std::string& param, const ParamTerm& added) {
    return message_of([&] {
      static_cast<void>(store.update_params({{"a", {.terms = {random_term(1, 1)}}}, {param, {.terms = {added}}}}));
    });
  };
  EXPECT_THAT(refusal("x", random_term(1, 1)), HasSubstr("'x'"));
  EXPECT_THAT(refusal("b", term(random_f32({16, 2}, 1), random_f32({2, 9}, 1), 1)),
              HasSubstr("'b' like this: the product of the factors is [16, 9], expected [16, 8]"));
  EXPECT_THAT(refusal("b", term(random_f32({16, 2}, 1), random_f32({3, 8}, 1), 1)), HasSubstr("have no product"));
  EXPECT_THAT(refusal("e", {.factors = {.up = view(checkpoint.read("a"))}}), HasSubstr("is [16, 8], expected [16]"));
  expect_all_same(plain, run(session));
}

/// A CPU that can run out of memory.
class ScarceBackend final : public ForwardingBackend {
 public:
  bool is_out_of_memory = false;

 protected:
  [[nodiscard]] void* allocate_bytes(std::size_t bytes) override {
    if (is_out_of_memory) throw OutOfMemory("there is no memory");
    return ForwardingBackend::allocate_bytes(bytes);
  }
};

TEST(ParamUpdates, ThatFindNoMemoryUnloadWhatTheyWereForAndComeWithIt) {
  ScarceBackend backend;
  const Checkpoint checkpoint = make_updated_checkpoint();
  WeightStore store(backend, checkpoint);
  const auto program = make_program(backend);
  Session session(program, store, backend);
  static_cast<void>(run(session));
  const ParamUpdates updates = {{"b", {.terms = {random_term(2, 1)}}}, {"c", {.terms = {random_term(3, 1)}}}};
  backend.is_out_of_memory = true;
  EXPECT_THROW(static_cast<void>(store.update_params(updates)), OutOfMemory);
  backend.is_out_of_memory = false;
  EXPECT_FALSE(session.is_loaded());
  EXPECT_THAT(message_of([&] { session.run(); }), HasSubstr("unloaded"));
  store.reload(*program);
  expect_updated(run(session), checkpoint, updates);
}

/// Weights that can be unloaded: two with equal foldings.
void update_what_is_unloaded(Backend& backend) {
  const Checkpoint checkpoint = Checkpoint::random(nlohmann::json::object(),
                                                   {{.name = "v", .dtype = DType::kF32, .shape = {640, 1024}},
                                                    {.name = "w", .dtype = DType::kF32, .shape = {640, 1024}}},
                                                   3);
  const auto program = std::make_shared<Program>(
      plan(parse_graph("graph two {\n param %v: f32[640, 1024]\n param %w: f32[640, 1024]\n output v = %v\n output w = "
                       "%w\n}"),
           backend.properties().target, {.arena = true}));
  WeightStore store(backend, checkpoint);
  Session session(program, store, backend);
  const ParamTerm added = term(random_f32({640, 2}, 1), random_f32({2, 1024}, 2), 0.01);
  const ParamUpdates updates = {{"v", {.terms = {added}}}, {"w", {.terms = {added}}}};
  const auto expect = [&](const ParamUpdates& expected) {
    const auto made = run(session);
    for (const char* name : {"v", "w"}) {
      const auto update = expected.find(name);
      const std::vector<double> values =
          sum(checkpoint.read(name), update == expected.end() ? ParamUpdate{} : update->second);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(made.at(name).at(static_cast<std::int64_t>(i)), values[i], 1e-6) << name << " " << i;
    }
  };
  expect({});
  store.unload(*program);
  EXPECT_THAT(store.update_params(updates), ElementsAre("v", "w"));
  store.reload(*program);
  expect(updates);
  store.unload(*program);  // with a host copy of their current values
  store.reload(*program);
  expect(updates);
  std::size_t asked = 0;
  static_cast<void>(store.update_params({{"w", {.terms = {added}}}}, [&](std::size_t bytes) { asked = bytes; }));
  EXPECT_EQ(asked, 0U) << "a param that is what its checkpoint says goes where it lies";
  expect({{"w", {.terms = {added}}}});
  static_cast<void>(store.update_params(updates, [&](std::size_t bytes) {
    asked = bytes;
    store.unload(*program);
  }));
  EXPECT_GT(asked, 640U * 1024U * sizeof(float));
  store.reload(*program);
  expect(updates);
  static_cast<void>(store.update_params({}));
  expect({});
}

TEST(ParamUpdates, AreInWhatWasUnloadedWhenItIsBack) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  update_what_is_unloaded(*backend);
}

TEST_F(ParamUpdatesOnAGpu, AreInWhatWasUnloadedWhenItIsBack) { update_what_is_unloaded(backend()); }

/// Owns the tensors of terms.
struct Kept {
  std::vector<std::shared_ptr<HostTensor>> tensors;

  HostView random(const Shape& shape, std::uint64_t seed) {
    tensors.push_back(std::make_shared<HostTensor>(random_f32(shape, seed)));
    return view(*tensors.back());
  }
};

double at(const HostView& matrix, std::int64_t index) {
  return load_as_double(matrix.bytes.data() + static_cast<std::size_t>(index) * size_of(matrix.dtype), matrix.dtype);
}

/// A row-major matrix in double precision.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  [[nodiscard]] double operator()(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

Matrix multiplied_out(const Factors& factors) {
  const std::int64_t n = factors.up.shape[0], rank = factors.up.shape[1];
  Matrix matrix{n, rank, {}};
  if (!factors.down) {
    for (std::int64_t i = 0; i < n * rank; ++i) matrix.values.push_back(at(factors.up, i));
    return matrix;
  }
  const std::int64_t k = factors.down->shape[1], s = factors.core ? factors.core->shape[2] : 1;
  matrix.columns = k * s;
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t column = 0; column < k * s; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < rank; ++i)
        for (std::int64_t j = 0; j < rank; ++j) {
          const double core = factors.core ? at(*factors.core, (i * rank + j) * s + column % s) : (i == j ? 1 : 0);
          sum += at(factors.up, row * rank + i) * core * at(*factors.down, j * k + column / s);
        }
      matrix.values.push_back(sum);
    }
  return matrix;
}

Matrix joined(const ParamTerm& term) {
  Matrix left = multiplied_out(term.factors);
  if (term.join == ParamTerm::Join::kNone) return left;
  const Matrix right = multiplied_out(*term.other);
  if (term.join == ParamTerm::Join::kHadamard) {
    for (std::size_t i = 0; i < left.values.size(); ++i) left.values[i] *= right.values[i];
    return left;
  }
  Matrix product{left.rows * right.rows, left.columns * right.columns, {}};
  for (std::int64_t i = 0; i < product.rows; ++i)
    for (std::int64_t j = 0; j < product.columns; ++j)
      product.values.push_back(left(i / right.rows, j / right.columns) * right(i % right.rows, j % right.columns));
  return product;
}

/// The param [n, in, ...] plus the terms, in double precision.
std::vector<double> updated(const HostTensor& param, std::span<const ParamTerm> terms) {
  std::vector<double> sum, base;
  for (std::int64_t i = 0; i < param.numel(); ++i) base.push_back(param.at(i));
  sum = base;
  const std::int64_t n = param.shape()[0], k = param.numel() / n, s = k / param.shape()[1];
  for (const ParamTerm& term : terms) {
    const Matrix matrix = joined(term);
    std::vector<RowRange> ranges = term.rows;
    if (ranges.empty()) ranges.push_back({0, matrix.rows});
    std::vector<double> alone = base;
    std::int64_t row = 0;
    for (const RowRange& range : ranges)
      for (std::int64_t i = range.first; i < range.first + range.count; ++i, ++row)
        for (std::int64_t j = 0; j < k; ++j) {
          const auto place = static_cast<std::size_t>(row * k + j);
          sum[place] += term.scale * matrix(i, j);
          alone[place] += term.scale * matrix(i, j);
        }
    if (!term.magnitude) continue;
    const bool is_of_rows = term.magnitude->shape[1] == 1;
    std::map<std::int64_t, double> squares;
    const auto group_of = [&](std::int64_t i) { return is_of_rows ? i / k : i % k / s; };
    for (std::int64_t i = 0; i < param.numel(); ++i)
      squares[group_of(i)] += alone[static_cast<std::size_t>(i)] * alone[static_cast<std::size_t>(i)];
    for (std::int64_t i = 0; i < param.numel(); ++i)
      sum[static_cast<std::size_t>(i)] *= at(*term.magnitude, group_of(i)) / std::sqrt(squares[group_of(i)]);
  }
  return sum;
}

/// A filter and a matrix with terms of every form, and with several in sequence.
void update_by_every_form(Backend& backend) {
  const Checkpoint checkpoint = Checkpoint::random(nlohmann::json::object(),
                                                   {{.name = "f", .dtype = DType::kF32, .shape = {6, 10, 3, 2}},
                                                    {.name = "m", .dtype = DType::kF32, .shape = {6, 10}}},
                                                   7);
  const auto program = std::make_shared<Program>(
      plan(parse_graph("graph two {\n param %f: f32[6, 10, 3, 2]\n param %m: f32[6, 10]\n output f = %f\n output m = "
                       "%m\n}"),
           backend.properties().target, {.arena = true}));
  WeightStore store(backend, checkpoint);
  Session session(program, store, backend);
  Kept kept;
  using Join = ParamTerm::Join;
  const ParamTerm plain{.factors = {.up = kept.random({6, 2}, 1), .down = kept.random({2, 60}, 2)}, .scale = 0.02};
  const ParamTerm core{
      .factors = {.up = kept.random({6, 3}, 3), .down = kept.random({3, 10}, 4), .core = kept.random({3, 3, 6}, 5)},
      .scale = 0.01};
  ParamTerm loha = core;
  loha.join = Join::kHadamard;
  loha.other = {.up = kept.random({6, 2}, 6), .down = kept.random({2, 60}, 7)};
  const ParamTerm lokr{
      .factors = {.up = kept.random({2, 5}, 8)},
      .join = Join::kKronecker,
      .other =
          Factors{.up = kept.random({3, 2}, 9), .down = kept.random({2, 2}, 10), .core = kept.random({2, 2, 6}, 11)},
      .scale = -0.02};
  ParamTerm dora = plain;
  dora.magnitude = kept.random({6, 1}, 12);
  ParamTerm dora_in = lokr;
  dora_in.magnitude = kept.random({1, 10}, 13);
  const std::vector<std::vector<ParamTerm>> of_filter = {{core}, {loha},    {lokr},
                                                         {dora}, {dora_in}, {loha, dora, plain, dora_in}};
  // Rows of a Kronecker product with 18 rows, the last ones first.
  const ParamTerm cut{.factors = {.up = kept.random({2, 5}, 14)},
                      .join = Join::kKronecker,
                      .other = Factors{.up = kept.random({9, 2}, 15)},
                      .rows = {{12, 4}, {3, 2}},
                      .scale = 0.02};
  ParamTerm cut_dora = cut;
  cut_dora.magnitude = kept.random({6, 1}, 16);
  const std::vector<std::vector<ParamTerm>> of_matrix = {{cut}, {cut_dora}, {cut, cut}};
  for (const auto& [param, cases] : {std::pair("f", of_filter), std::pair("m", of_matrix)})
    for (std::size_t c = 0; c < cases.size(); ++c) {
      SCOPED_TRACE(testing::Message() << param << " " << c);
      static_cast<void>(store.update_params({{param, {.terms = cases[c]}}}));
      const std::vector<double> expected = updated(checkpoint.read(param), cases[c]);
      const HostTensor made = run(session).at(param);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(made.at(static_cast<std::int64_t>(i)), expected[i], 1e-6 + 1e-5 * std::fabs(expected[i])) << i;
    }
}

TEST(ParamUpdates, AreProductsOfEveryForm) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  update_by_every_form(*backend);
}

TEST_F(ParamUpdatesOnAGpu, AreProductsOfEveryForm) { update_by_every_form(backend()); }

TEST(ParamTerms, OfRowsOfZerosStayZeros) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Checkpoint checkpoint = make_updated_checkpoint();
  WeightStore store(*backend, checkpoint);
  store.change_param("a", HostTensor(DType::kF32, {16, 8}));
  Session session(make_program(*backend), store, *backend);
  const HostTensor ones = [] {
    HostTensor tensor(DType::kF32, {16, 1});
    for (std::int64_t i = 0; i < 16; ++i) tensor.set(i, 1);
    return tensor;
  }();
  ParamTerm zeros = term(HostTensor(DType::kF32, {16, 2}), HostTensor(DType::kF32, {2, 8}), 1);
  zeros.magnitude = view(ones);
  static_cast<void>(store.update_params({{"a", {.terms = {zeros}}}}));
  expect_same(run(session).at("a"), HostTensor(DType::kF32, {16, 8}));
}

TEST(ParamTerms, SayWhatDoesNotFit) {
  Kept kept;
  const auto obstacle = [](const ParamTerm& term, const Shape& shape) { return term.obstacle(DType::kF32, shape); };
  ParamTerm loha{.factors = {.up = kept.random({6, 2}, 1), .down = kept.random({2, 10}, 2)},
                 .join = ParamTerm::Join::kHadamard,
                 .other = Factors{.up = kept.random({6, 2}, 3), .down = kept.random({2, 9}, 4)}};
  EXPECT_EQ(obstacle(loha, {6, 10}), "the products [6, 10] and [6, 9] have different shapes");
  ParamTerm lokr{.factors = {.up = kept.random({2, 5}, 1)},
                 .join = ParamTerm::Join::kKronecker,
                 .other = Factors{.up = kept.random({3, 2}, 2)}};
  EXPECT_EQ(obstacle(lokr, {6, 10}), "");
  EXPECT_EQ(obstacle(lokr, {6, 5, 2, 1}), "");
  EXPECT_EQ(obstacle(lokr, {6, 9}), "the product of the factors is [6, 10], expected [6, 9]");
  lokr.rows = {{4, 3}};
  EXPECT_EQ(obstacle(lokr, {3, 10}), "its matrix is [6, 10], expected 3 rows from 4");
  lokr.rows = {{0, 2}, {5, 1}};
  EXPECT_EQ(obstacle(lokr, {3, 10}), "");
  lokr.magnitude = kept.random({1, 10}, 3);
  EXPECT_EQ(obstacle(lokr, {3, 10}), "");
  EXPECT_EQ(obstacle(lokr, {3, 5, 2, 1}), "its magnitudes are [1, 10], expected one for each of 3 outputs");
  loha.other->core = kept.random({2, 3, 1}, 5);
  EXPECT_EQ(obstacle(loha, {6, 10}), "the core [2, 3, 1] does not fit the rank, which is 2");
  lokr.other->up = kept.random({3}, 6);
  EXPECT_EQ(obstacle(lokr, {3, 10}), "[3] is no matrix");
}

TEST(FoldingGraphs, RoundOnceAndNameNoModule) {
  const Graph weight = parse_graph(R"(graph w {
    input %"x.weight": bf16[4, 2]
    input %"y.weight": bf16[4, 2]
    %2: bf16[8, 2] = concat(%"x.weight", %"y.weight") {axis = 0} @ x
    %3: bf16[2, 8] = transpose(%2) {perm = [1, 0]} @ x
    output w = %3
  })");
  const ParamUpdate update{.terms = {term(HostTensor(DType::kBF16, {4, 1}), HostTensor(DType::kBF16, {1, 2}), 1)}};
  const ParamUpdate* const updates[] = {&update, nullptr};
  EXPECT_EQ(canonical_text(folding_graph(weight, updates)), canonical_text(parse_graph(R"(graph weight {
    input %p0: bf16[4, 2]
    input %p1: bf16[4, 2]
    input %p0.scale0: f32[1]
    input %p0.up0: bf16[4, 1]
    input %p0.down0: bf16[1, 2]
    %5: f32[4, 2] = cast(%p0) {dtype = f32}
    %6: f32[4, 1] = cast(%p0.up0) {dtype = f32}
    %7: f32[4, 1] = mul(%6, %p0.scale0)
    %8: f32[1, 2] = cast(%p0.down0) {dtype = f32}
    %9: f32[4, 2] = matmul(%7, %8) {transpose_b = 0, tf32 = 0}
    %10: f32[4, 2] = add(%5, %9)
    %11: f32[4, 2] = cast(%p1) {dtype = f32}
    %12: f32[8, 2] = concat(%10, %11) {axis = 0}
    %13: f32[2, 8] = transpose(%12) {perm = [1, 0]}
    %14: bf16[2, 8] = cast(%13) {dtype = bf16}
    output w = %14
  })")));
  const ParamUpdate* const none[] = {nullptr, nullptr};
  EXPECT_EQ(folding_graph(weight, none).nodes().size(), 2U);
}

}  // namespace
}  // namespace headroom
