// Weights as checkpoints store them and models transform them: expressions that a plan folds once.

#include "differential/graph_maker.hpp"

namespace headroom::differential {

/// [rows, columns] in the graph's dtype, sometimes one that another matmul reads as well.
ValueId GraphMaker::weight(std::int64_t rows, std::int64_t columns) {
  const TensorType type = typed({rows, columns});
  if (choose_.one_in(4)) {
    std::vector<ValueId> known;
    for (const ValueId param : graph_.values_of(ValueKind::kParam))
      if (graph_.type(param) == type) known.push_back(param);
    if (!known.empty()) return choose_.from(known);
  }
  return new_weight(rows, columns);
}

ValueId GraphMaker::new_weight(std::int64_t rows, std::int64_t columns) {
  const TensorType type = typed({rows, columns});
  switch (choose_.below(12)) {
    case 0:
    case 1:
    case 2: {
      const DType stored = choose_.of({DType::kBF16, DType::kF16, DType::kF32, DType::kF64});
      return b_.cast(graph_.add_param(fresh("w"), {stored, type.shape}), dtype_);
    }
    case 3:
    case 4:
      return stored_weight(rows, columns);
    case 5:
      return b_.mul_scalar(graph_.add_param(fresh("w"), type), 0.5);
    case 6:
      return b_.transpose(graph_.add_param(fresh("w"), typed({columns, rows})), {1, 0});
    case 7:
      return rows < 2 ? graph_.add_param(fresh("w"), type)
                      : b_.concat({weight(rows / 2, columns), weight(rows - rows / 2, columns)}, 0);
    case 8:
      return b_.slice(larger_weight(rows + 2, columns), 0, choose_.one_in(2) ? 1 : 2, rows);
    case 9:
      // A weight of a bf16 checkpoint, through f32 and back.
      return b_.cast(b_.cast(graph_.add_param(fresh("w"), {DType::kBF16, type.shape}), DType::kF32), dtype_);
    default:
      return graph_.add_param(fresh("w"), type);
  }
}

/// A larger weight that others read too, if there is one: their slices differ only in the offset.
ValueId GraphMaker::larger_weight(std::int64_t rows, std::int64_t columns) {
  const TensorType type = typed({rows, columns});
  for (const ValueId param : graph_.values_of(ValueKind::kParam))
    if (graph_.type(param) == type) return param;
  return graph_.add_param(fresh("w"), type);
}

/// A weight as written by `headroom convert`: narrow elements with a scale for each row.
ValueId GraphMaker::stored_weight(std::int64_t rows, std::int64_t columns) {
  const auto part = [&](std::int64_t count) {
    const DType stored = choose_.one_in(3) ? DType::kF8E4M3 : DType::kI8;
    const ValueId q = graph_.add_param(fresh("q"), {stored, Shape{count, columns}});
    const ValueId scale = graph_.add_param(fresh("scale"), {DType::kF32, Shape{count}});
    return b_.dequantize_rows(q, scale);
  };
  if (rows >= 2 && choose_.one_in(4)) return b_.cast(b_.concat({part(rows / 2), part(rows - rows / 2)}, 0), dtype_);
  return b_.cast(part(rows), dtype_);
}

/// [size], in the dtype of the tensor that it is combined with, or in f32.
ValueId GraphMaker::vector_weight(std::int64_t size, DType dtype, const char* name) {
  if (choose_.one_in(3)) dtype = DType::kF32;
  const Shape shape{size};
  if (choose_.one_in(4)) {
    const DType stored = choose_.of({DType::kBF16, DType::kF32});
    return b_.cast(graph_.add_param(fresh(name), {stored, shape}), dtype);
  }
  return graph_.add_param(fresh(name), {dtype, shape});
}

}  // namespace headroom::differential
