#include "train/adamw.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kRateColumns = 4;

/// Scalars of an update that all weights share, f32 [1] but for `runs`, bool [1].
struct UpdateScalars {
  ValueId runs, scale, rate, correction1, correction2, share;
};

/// weight, gradient, moments and scalars -> weight and moments; with a running mean and its share, that too; and the
/// weight in the dtype of its copy, if it has one.
Graph update_body(const AdamW& adamw, const Shape& shape, double decay, std::optional<DType> copy) {
  Graph body("adamw");
  Builder b(body);
  const auto input = [&](const char* name, const Shape& of, DType dtype = DType::kF32) {
    return body.add_input(name, TensorType{.dtype = dtype, .shape = of});
  };
  const ValueId weight = input("weight", shape), gradient = input("gradient", shape);
  const ValueId first = input("first", shape), second = input("second", shape);
  const ValueId runs = input("runs", {1}, DType::kBool), scale = input("scale", {1}), rate = input("rate", {1});
  const ValueId correction1 = input("correction1", {1}), correction2 = input("correction2", {1});
  const auto [beta1, beta2] = adamw.betas;
  const ValueId g = b.mul(gradient, scale);
  const ValueId m = b.add(b.mul_scalar(first, beta1), b.mul_scalar(g, 1 - beta1));
  const ValueId v = b.add(b.mul_scalar(second, beta2), b.mul_scalar(b.mul(g, g), 1 - beta2));
  const ValueId root = b.add_scalar(b.mul(b.sqrt(v), correction2), adamw.epsilon);
  const ValueId step = b.div(b.mul(m, b.mul(rate, correction1)), root);
  const ValueId kept = decay == 0 ? weight : b.mul(weight, b.add_scalar(b.mul_scalar(rate, -decay), 1));
  const ValueId next = b.sub(kept, step);
  const ValueId chosen = b.where(runs, next, weight);
  body.add_output("weight", chosen);
  body.add_output("first", b.where(runs, m, first));
  body.add_output("second", b.where(runs, v, second));
  if (adamw.average > 0) {
    const ValueId average = input("average", shape), share = input("share", {1});
    body.add_output("average", b.where(runs, b.add(average, b.mul(b.sub(next, average), share)), average));
  }
  if (copy) body.add_output("copy", b.cast(chosen, *copy));
  return body;
}

/// Row by row first: sums of rows are fused with what makes x.
ValueId sum_of_squares(Builder& b, ValueId x) {
  const int rank = b.shape(x).rank();
  ValueId sum = b.mul(x, x);
  if (rank > 0) sum = b.sum(sum, {rank - 1});
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis + 1 < rank; ++axis) axes.push_back(axis);
  return axes.empty() ? sum : b.sum(sum, std::move(axes));
}

}  // namespace

double RateSchedule::rate(std::int64_t update) const {
  if (update < warmup) return peak * static_cast<double>(update + 1) / static_cast<double>(warmup);
  if (kind == Kind::kConstant) return peak;
  const double share = std::min(
      1.0, static_cast<double>(update - warmup) / static_cast<double>(std::max<std::int64_t>(1, updates - 1 - warmup)));
  const double left = kind == Kind::kLinear ? 1 - share : 0.5 * (1 + std::cos(std::numbers::pi * share));
  return peak * (final_share + (1 - final_share) * left);
}

std::string first_moment_name(const std::string& weight) { return weight + ".exp_avg"; }
std::string second_moment_name(const std::string& weight) { return weight + ".exp_avg_sq"; }
std::string average_name(const std::string& weight) { return weight + ".average"; }
std::string copy_name(const std::string& weight) { return weight + ".copy"; }

HostTensor rate_table(const AdamW& adamw) {
  HostTensor table(DType::kF32, {adamw.schedule.updates, kRateColumns});
  for (std::int64_t i = 0; i < adamw.schedule.updates; ++i) {
    const auto n = static_cast<double>(i + 1);
    const double row[kRateColumns] = {adamw.schedule.rate(i), 1 / (1 - std::pow(adamw.betas[0], n)),
                                      1 / std::sqrt(1 - std::pow(adamw.betas[1], n)),
                                      1 - std::min(adamw.average, (1 + n) / (10 + n))};
    for (std::int64_t k = 0; k < kRateColumns; ++k) table.set(kRateColumns * i + k, row[k]);
  }
  return table;
}

Updated append_adamw(Builder& b, const AdamW& adamw, const std::vector<TrainedWeight>& weights,
                     const std::vector<ValueId>& gradients, ValueId loss_scale) {
  HR_CHECK(weights.size() == gradients.size() && !weights.empty());
  const auto scope = b.scope("optimizer");
  Graph& graph = b.graph();
  const ValueId updates = graph.add_state(std::string(kUpdatesState), TensorType{.dtype = DType::kI32, .shape = {}});
  const ValueId rates =
      graph.add_input(std::string(kRatesInput), TensorType{.shape = {adamw.schedule.updates, kRateColumns}});

  ValueId squares = kNoValue;
  for (const ValueId gradient : gradients) {
    const ValueId more = sum_of_squares(b, gradient);
    squares = squares == kNoValue ? more : b.add(squares, more);
  }
  const ValueId scaled_norm = b.sqrt(squares);
  const ValueId norm = loss_scale == kNoValue ? scaled_norm : b.div(scaled_norm, loss_scale);
  const ValueId one = b.constant({1}, {});
  ValueId scale = adamw.clip == 0 ? one : b.min(one, b.div(b.constant({adamw.clip}, {}), b.add_scalar(norm, 1e-6)));
  if (loss_scale != kNoValue) scale = b.div(scale, loss_scale);
  const ValueId runs = b.less(norm, b.constant({std::numeric_limits<double>::infinity()}, {}));
  const ValueId row = b.row(rates, updates);  // [kRateColumns]
  const auto at = [&](std::int64_t i) { return b.slice(row, 0, i, 1); };
  const UpdateScalars scalars{b.reshape(runs, {1}), b.reshape(scale, {1}), at(0), at(1), at(2), at(3)};

  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TrainedWeight& weight = weights[i];
    const auto of_weight = b.scope(weight.name);
    const TensorType type = graph.type(weight.value);
    HR_CHECK(graph.type(gradients[i]) == type && type.dtype == DType::kF32);
    const ValueId first = graph.add_state(first_moment_name(weight.name), type);
    const ValueId second = graph.add_state(second_moment_name(weight.name), type);
    std::vector<ValueId> states = {weight.value, first, second};
    std::vector<ValueId> inputs = {weight.value, gradients[i],        first,
                                   second,       scalars.runs,        scalars.scale,
                                   scalars.rate, scalars.correction1, scalars.correction2};
    if (adamw.average > 0) {
      states.push_back(graph.add_state(average_name(weight.name), type));
      inputs.insert(inputs.end(), {states.back(), scalars.share});
    }
    std::optional<DType> copy;
    if (weight.copy != kNoValue) {
      states.push_back(weight.copy);
      copy = graph.type(weight.copy).dtype;
    }
    const Graph body = update_body(adamw, type.shape, weight.decays ? adamw.weight_decay : 0, copy);
    const std::vector<ValueId> next = b.fused(std::move(inputs), body);
    for (std::size_t k = 0; k < states.size(); ++k) b.set_next(states[k], next[k]);
  }
  b.set_next(updates, b.add(updates, b.cast(runs, DType::kI32)));
  return {.norm = norm, .rate = b.reshape(scalars.rate, {}), .runs = runs};
}

}  // namespace headroom
