#include "differential/graph_maker.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "differential/random_graph.hpp"

namespace headroom::differential {
namespace {

constexpr double kMostSize = 4;  // approximate limit of element magnitudes

constexpr std::array kSmall = {
    Dims{1, 1, 1, 1, 2}, Dims{2, 3, 2, 2, 4}, Dims{1, 5, 3, 3, 2}, Dims{3, 2, 1, 1, 6},
    Dims{2, 7, 5, 1, 8}, Dims{1, 4, 4, 2, 8}, Dims{2, 1, 3, 2, 2}, Dims{4, 3, 3, 1, 4},
};
/// Enough rows and channels for quantized matmuls.
constexpr std::array kWide = {
    Dims{2, 9, 5, 2, 16}, Dims{1, 17, 3, 4, 8}, Dims{2, 16, 8, 2, 32}, Dims{3, 7, 2, 3, 16}, Dims{1, 33, 16, 2, 16},
};
/// Rows of a megabyte and more, short and long.
constexpr std::array kRows = {
    Dims{4, 4096, 1, 2, 16}, Dims{2, 81, 1, 8, 250},  Dims{1, 96, 1, 24, 128},
    Dims{3, 1024, 1, 3, 64}, Dims{1, 24, 1, 64, 192},
};
/// Enough samples for tiles.
constexpr std::array kBatches = {
    Dims{4, 64, 8, 2, 16},
    Dims{8, 64, 4, 2, 8},
    Dims{6, 64, 2, 1, 32},
};

}  // namespace

Graph random_graph(std::uint64_t seed, DeviceKind device) { return GraphMaker(seed, device).make(); }
Graph random_bodies(std::uint64_t seed, DeviceKind device) { return GraphMaker(seed, device).make_bodies(); }

GraphMaker::GraphMaker(std::uint64_t seed, DeviceKind device) : choose_(seed), device_(device), dims_(kSmall[0]) {}

Graph GraphMaker::make() {
  declare();
  fill_region(0, is_model_ ? 2 + static_cast<int>(choose_.below(3)) : 3 + static_cast<int>(choose_.below(7)));
  update_states();
  add_outputs();
  return std::move(graph_);
}

Graph GraphMaker::make_bodies() {
  dims_ = choose_.one_in(32) ? choose_.from(kRows) : choose_.one_in(2) ? choose_.from(kSmall) : choose_.from(kWide);
  dtype_ = choose_.one_in(2) ? DType::kBF16 : DType::kF32;
  tokens_ = typed({dims_.batch, dims_.seq, dims_.width()});
  visible_.push_back(graph_.add_input("x", tokens_));
  for (int i = 0; i < kBodiesOfGraph; ++i) add_body();
  int outputs = 0;
  for (const ValueId value : visible_)
    if (graph_.value(value).kind != ValueKind::kInput) graph_.add_output(fmt::format("y{}", outputs++), value);
  return std::move(graph_);
}

void GraphMaker::declare() {
  const std::size_t kind = choose_.below(40);
  dims_ = kind < 24 ? choose_.from(kSmall) : kind < 39 ? choose_.from(kWide) : choose_.from(kBatches);
  is_model_ = kind >= 24 ? !choose_.one_in(4) : choose_.one_in(4);
  dtype_ = choose_.one_in(6) ? DType::kBF16 : DType::kF32;
  is_batch_ = kind == 39;
  is_of_images_ = choose_.one_in(4);
  is_of_bodies_ = !is_of_images_ && choose_.one_in(4);
  nodes_left_ = is_batch_ ? 30 : is_model_ ? 60 : 45;
  tokens_ = typed({dims_.batch, dims_.seq, dims_.width()});
  visible_.push_back(graph_.add_input("x", tokens_));
  const std::size_t states = choose_.below(4);
  for (std::size_t i = 0; i < states; ++i) {
    states_.push_back(graph_.add_state(i == 0 ? "x" : fresh("s"), tokens_));  // also the name of an input
    visible_.push_back(states_.back());
  }
}

void GraphMaker::fill_region(int depth, int items) {
  for (int i = 0; i < items && static_cast<int>(graph_.nodes().size()) < nodes_left_; ++i) {
    if (depth < 3 && choose_.one_in(is_model_ ? 4 : 5))
      choose_.one_in(2) ? add_loop(depth) : add_if(depth);
    else
      add_item();
  }
}

void GraphMaker::add_loop(int depth) {
  const std::size_t visible = visible_.size();
  const auto counters = counters_;
  const std::size_t most = is_batch_ ? 2 : 4;  // each iteration of a batch takes the oracle seconds
  const std::int64_t trips = choose_.one_in(6) ? 1 : 2 + static_cast<std::int64_t>(choose_.below(most - 1));
  std::vector<ValueId> results;
  const bool reads_again = !states_.empty() && choose_.one_in(3);
  const ValueId read = reads_again ? choose_.from(states_) : kNoValue;
  const ValueId before = reads_again ? add_reader(read) : kNoValue;
  {
    const auto loop = b_.loop(trips, fresh("i"));
    counters_.emplace_back(loop.counter(), trips);
    if (before != kNoValue) {
      if (choose_.one_in(2))
        add_reader(read);
      else
        keep(b_.silu(before), size(before));
    }
    if (choose_.one_in(5)) add_rows_of_tables();
    if (!choose_.one_in(6)) fill_region(depth + 1, 1 + static_cast<int>(choose_.below(4)));
    update_states();
    for (std::size_t i = choose_.below(3); i > 0; --i) {
      const ValueId value = any();
      results.push_back(loop.yield(value));
      sizes_[results.back()] = size(value);
    }
  }
  counters_ = counters;
  visible_.resize(visible);
  visible_.insert(visible_.end(), results.begin(), results.end());
}

/// A function or a view of the state, if the state still has its original value: before a loop and in it, equal
/// except for the writes of the loop. Otherwise kNoValue.
ValueId GraphMaker::add_reader(ValueId state) {
  const TensorType type = graph_.type(state);
  if (b_.read(state) != state || (type.dtype != DType::kF32 && type.dtype != DType::kBF16)) return kNoValue;
  return keep(choose_.one_in(2) ? b_.silu(state) : b_.reshape(state, {type.shape.numel()}), size(state));
}

void GraphMaker::add_if(int depth) {
  const std::size_t visible = visible_.size();
  const TensorType second = graph_.type(any());
  const Builder::Branch branch = [&] {
    if (!choose_.one_in(4)) fill_region(depth + 1, 1 + static_cast<int>(choose_.below(3)));
    const std::vector<ValueId> yields = {tokens(), operand(second)};
    if (choose_.one_in(2)) update_states();
    visible_.resize(visible);
    return yields;
  };
  const ValueId hit = predicate();
  std::vector<ValueId> results;
  if (choose_.one_in(3)) {
    const std::vector<ValueId> instead = {tokens(), operand(second)};
    results = b_.run_if(hit, branch, instead);
  } else {
    results = b_.select(hit, branch, branch);
  }
  visible_.resize(visible);
  visible_.insert(visible_.end(), results.begin(), results.end());
}

/// A bool scalar that does not depend on rounding: an input, or a function of a counter.
ValueId GraphMaker::predicate() {
  if (!counters_.empty() && choose_.one_in(2)) {
    const auto [counter, trips] = choose_.from(counters_);
    if (choose_.one_in(2)) return b_.cast(counter, DType::kBool);
    return b_.row(graph_.add_input(fresh("hits"), {DType::kBool, Shape{trips}}), counter);
  }
  const ValueId known = graph_.find(ValueKind::kInput, "hit");
  return known != kNoValue ? known : graph_.add_input("hit", {DType::kBool, Shape{}});
}

/// A state has one update, or one in each branch of a single `if`.
bool GraphMaker::may_update(ValueId state) const {
  const RegionId branch = graph_.region(b_.region()).branch;
  return std::ranges::all_of(graph_.state_updates(), [&](const StateUpdate& update) {
    return update.value != state || (branch != kNoRegion && update.region == branch);
  });
}

void GraphMaker::update_states() {
  std::vector<ValueId> free;
  for (const ValueId state : states_)
    if (may_update(state) && b_.read(state) == state && !choose_.one_in(3)) free.push_back(state);
  const auto is_alike = [&](ValueId state) { return graph_.type(state) == graph_.type(free.front()); };
  if (free.size() >= 2 && choose_.one_in(3) && std::ranges::all_of(free, is_alike)) {  // a cycle of states
    std::vector<ValueId> next(free.begin() + 1, free.end());
    next.push_back(free.front());
    for (std::size_t i = 0; i < free.size(); ++i) b_.set_next(free[i], next[i]);
    return;
  }
  std::vector<std::pair<ValueId, ValueId>> updates;
  for (const ValueId state : free) {
    ValueId next = operand(graph_.type(state));
    const bool has_rows = graph_.type(state).shape.rank() > 0 && graph_.type(state).shape[-1] > 1;
    const bool is_real = graph_.type(state).dtype == DType::kF32 || graph_.type(state).dtype == DType::kBF16;
    if (choose_.one_in(3) && has_rows && is_real) next = b_.layer_norm(next, 1e-5);
    updates.emplace_back(state, tame(next, std::max(size(next), 1.0) * 2));
  }
  for (const auto& [state, next] : updates) b_.set_next(state, next);
}

void GraphMaker::add_outputs() {
  const std::size_t count = 1 + choose_.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    // The most recent values depend on most of the graph.
    const std::size_t recent = std::min<std::size_t>(visible_.size(), 6);
    const ValueId value = choose_.one_in(3) ? any() : b_.read(visible_[visible_.size() - 1 - choose_.below(recent)]);
    graph_.add_output(fmt::format("y{}", i), laid(value, Layout::kRowMajor));
  }
}

double GraphMaker::size(ValueId value) const {
  const auto found = sizes_.find(value);
  return found == sizes_.end() ? 1 : found->second;
}

ValueId GraphMaker::tame(ValueId value, double size) {
  if (size <= kMostSize || (graph_.type(value).dtype != DType::kF32 && graph_.type(value).dtype != DType::kBF16))
    return value;
  const ValueId tamed = b_.mul_scalar(value, 1 / std::exp2(std::ceil(std::log2(size))));
  sizes_[tamed] = 1;
  return tamed;
}

ValueId GraphMaker::keep(ValueId value, double size) {
  sizes_[value] = size;
  visible_.push_back(tame(value, size));
  return visible_.back();
}

ValueId GraphMaker::any() {
  const std::size_t recent = std::min<std::size_t>(visible_.size(), 5);
  if (choose_.one_in(2)) return b_.read(visible_[visible_.size() - 1 - choose_.below(recent)]);
  return b_.read(choose_.from(visible_));
}

/// A value of a dtype in which kernels compute.
ValueId GraphMaker::any_real() {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const ValueId value = any();
    const DType dtype = graph_.type(value).dtype;
    if ((dtype == DType::kF32 || dtype == DType::kBF16) && graph_.type(value).shape.rank() > 0) return value;
  }
  return tokens();
}

/// A visible value of the type, another value converted to it, or a new one.
ValueId GraphMaker::operand(const TensorType& type) {
  std::vector<ValueId> fitting, castable, same_size;
  for (const ValueId value : visible_) {
    const TensorType& has = graph_.type(value);
    if (has == type) fitting.push_back(value);
    const bool may_cast = is_float(has.dtype) && is_float(type.dtype);
    if (may_cast && has.shape == type.shape) castable.push_back(value);
    if (has.dtype == type.dtype && has.shape.numel() == type.shape.numel()) same_size.push_back(value);
  }
  if (!fitting.empty() && !choose_.one_in(12)) {
    const std::size_t recent = std::min<std::size_t>(fitting.size(), 4);
    return b_.read(choose_.one_in(2) ? fitting[fitting.size() - 1 - choose_.below(recent)] : choose_.from(fitting));
  }
  if (type.layout == Layout::kChannelsLast) return laid(operand({type.dtype, type.shape}), type.layout);
  if (!same_size.empty() && choose_.one_in(3))
    return b_.reshape(b_.read(choose_.from(same_size)), extents_of(type.shape));
  if (!castable.empty() && choose_.one_in(2)) {
    const ValueId value = b_.read(choose_.from(castable));
    const ValueId made = b_.cast(value, type.dtype);
    sizes_[made] = size(value);
    return laid(made, type.layout);
  }
  return source(type);
}

/// An input, or for floating-point types sometimes a param or a state that is not updated yet.
ValueId GraphMaker::source(const TensorType& type) {
  ValueId value = kNoValue;
  if (is_float(type.dtype) && choose_.one_in(6)) {
    value = graph_.add_state(fresh("s"), type);
    states_.push_back(value);
  } else if (choose_.one_in(4)) {
    value = graph_.add_param(fresh("p"), type);
  } else {
    value = graph_.add_input(fresh("in"), type);
  }
  return value;
}

void GraphMaker::add_item() {
  struct Item {
    std::size_t weight;
    void (GraphMaker::*add)();
  };
  static constexpr std::array kOps = {
      Item{6, &GraphMaker::add_binary},         Item{6, &GraphMaker::add_unary},
      Item{4, &GraphMaker::add_cast},           Item{5, &GraphMaker::add_view},
      Item{2, &GraphMaker::add_concat},         Item{3, &GraphMaker::add_row},
      Item{2, &GraphMaker::add_duplicate},      Item{2, &GraphMaker::add_image},
      Item{2, &GraphMaker::add_reduction},      Item{2, &GraphMaker::add_function},
      Item{2, &GraphMaker::add_choice},         Item{2, &GraphMaker::add_integers},
      Item{2, &GraphMaker::add_fused},          Item{3, &GraphMaker::add_body},
      Item{2, &GraphMaker::add_matmul},         Item{1, &GraphMaker::add_rope},
      Item{2, &GraphMaker::add_rows_of_tables}, Item{2, &GraphMaker::add_shape_round_trip},
      Item{2, &GraphMaker::add_indexed},        Item{2, &GraphMaker::add_padded},
      Item{2, &GraphMaker::add_values},         Item{2, &GraphMaker::add_masked_attention},
      Item{3, &GraphMaker::add_linear},         Item{1, &GraphMaker::add_quantized},
      Item{4, &GraphMaker::add_case},
  };
  static constexpr std::array kPatterns = {
      Item{3, &GraphMaker::add_projections},   Item{4, &GraphMaker::add_norm_modulate},
      Item{4, &GraphMaker::add_gate_residual}, Item{4, &GraphMaker::add_attention},
      Item{4, &GraphMaker::add_mlp},           Item{2, &GraphMaker::add_quantized},
      Item{2, &GraphMaker::add_modulation},    Item{5, &GraphMaker::add_block},
      Item{1, &GraphMaker::add_image_block},   Item{2, &GraphMaker::add_rows_of_tables},
  };
  static constexpr std::array kOfImages = {
      Item{5, &GraphMaker::add_image},
      Item{2, &GraphMaker::add_image_block},
  };
  const auto add_one_of = [&](const auto& items) {
    std::size_t total = 0;
    for (const Item& item : items) total += item.weight;
    std::size_t drawn = choose_.below(total);
    for (const Item& item : items) {
      if (drawn < item.weight) return (this->*item.add)();
      drawn -= item.weight;
    }
  };
  const auto scope = b_.scope(fmt::format("m{}", choose_.below(4)));
  if (is_of_images_ && !choose_.one_in(3)) return add_one_of(kOfImages);
  if (is_of_bodies_ && !choose_.one_in(3)) return add_body();
  choose_.below(4) < (is_model_ ? 3U : 1U) ? add_one_of(kPatterns) : add_one_of(kOps);
}

}  // namespace headroom::differential
