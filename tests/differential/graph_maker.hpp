#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/target.hpp"
#include "differential/choices.hpp"
#include "ir/builder.hpp"
#include "ir/infer.hpp"

namespace headroom::differential {

/// The extents of a graph. There are only a few values, so that libraries prepare each matmul once.
struct Dims {
  std::int64_t batch, seq, text, heads, head_dim;
  [[nodiscard]] std::int64_t width() const { return heads * head_dim; }
};

/// A shape in the form of an op attribute.
inline std::vector<std::int64_t> extents_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

/// Builds one random graph; random_graph() in parts. Values in scope are in `visible_`; every part reads some of them
/// and appends its results.
class GraphMaker {
 public:
  GraphMaker(std::uint64_t seed, DeviceKind device);
  Graph make();
  Graph make_bodies();

 private:
  // graph_maker.cpp: regions, states, and sources of operands
  void declare();
  void fill_region(int depth, int items);
  void add_loop(int depth);
  ValueId add_reader(ValueId state);
  void add_if(int depth);
  void update_states();
  bool may_update(ValueId state) const;
  void add_outputs();
  void add_item();
  ValueId predicate();

  // Operands. Types with "tokens" are [batch, seq, width].
  ValueId any();
  ValueId any_real();
  ValueId operand(const TensorType& type);
  ValueId source(const TensorType& type);
  ValueId tokens() { return operand(tokens_); }
  TensorType typed(Shape shape) const { return {dtype_, std::move(shape)}; }
  std::string fresh(const char* name) { return fmt::format("{}{}", name, names_++); }
  double size(ValueId value) const;
  /// Adds a value with elements of magnitude `size`, scaled down if magnitudes would grow without limit.
  ValueId keep(ValueId value, double size);
  ValueId tame(ValueId value, double size);

  // random_ops.cpp: single ops
  void add_binary();
  void add_unary();
  void add_norm(ValueId x);
  void add_cast();
  void add_view();
  void add_shape_round_trip();
  void add_concat();
  void add_row();
  void add_duplicate();
  void add_reduction();
  void add_function();
  void add_integers();
  void add_choice();
  void add_fused();
  void add_matmul();
  void add_rope();

  // random_bodies.cpp: bodies of fused ops
  void add_body();

  // random_cases.cpp: small cases of the table of cases
  void add_case();
  ValueId case_operand(const OpSpec& spec, std::size_t index, bool restricted);

  // random_images.cpp: images in both layouts
  ValueId laid(ValueId value, Layout layout);
  ValueId image();
  void add_image();
  void add_convolution(ValueId x);
  void add_end_of_convolution(Node plain, double magnitude);
  void add_group_norm(ValueId x);
  void add_resampled(ValueId x);
  void add_second_image(ValueId x);
  void add_tokens_of(ValueId x);
  void add_image_block();

  // random_movements.cpp: data movement, values without inputs, and all forms of attention
  void add_indexed();
  void add_padded();
  void add_values();
  void add_masked_attention();
  ValueId attend_in_parts(ValueId q, ValueId k, ValueId v, const Builder::Attention& with);

  // random_weights.cpp: weights of matmuls
  ValueId weight(std::int64_t rows, std::int64_t columns);
  ValueId new_weight(std::int64_t rows, std::int64_t columns);
  ValueId larger_weight(std::int64_t rows, std::int64_t columns);
  ValueId vector_weight(std::int64_t size, DType dtype, const char* name);
  ValueId stored_weight(std::int64_t rows, std::int64_t columns);

  // random_patterns.cpp: patterns that passes match
  void add_linear();
  void add_projections();
  void add_norm_modulate();
  void add_gate_residual();
  void add_attention();
  void add_mlp();
  void add_quantized();
  void add_modulation();
  void add_block();
  void add_rows_of_tables();
  ValueId modulation();
  ValueId normed(ValueId x);
  ValueId gated(ValueId residual, ValueId x);
  ValueId linear(ValueId x, std::int64_t columns, bool with_activation);
  ValueId split_heads(ValueId x);
  ValueId qk_norm(ValueId heads);
  ValueId biased(ValueId scores);
  ValueId attend(ValueId q, ValueId k, ValueId v);
  std::pair<ValueId, ValueId> rope_tables(std::int64_t positions);
  ValueId mlp(ValueId x);
  std::vector<ValueId> projections(ValueId x, int count);

  Choices choose_;
  DeviceKind device_;
  Dims dims_;
  DType dtype_ = DType::kF32;
  Graph graph_{"random"};
  Builder b_{graph_};
  TensorType tokens_;
  std::vector<ValueId> visible_;
  std::vector<ValueId> states_;
  std::vector<std::pair<ValueId, std::int64_t>> counters_;  // in scope, with the trip counts of their loops
  std::map<ValueId, double> sizes_;
  int names_ = 0;
  int nodes_left_ = 0;
  bool is_model_ = false;      // mostly whole patterns
  bool is_batch_ = false;      // enough samples for tiles
  bool is_of_images_ = false;  // mostly
  bool is_of_bodies_ = false;  // likewise
};

}  // namespace headroom::differential
