#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/error.hpp"
#include "base/tensors/block_format.hpp"
#include "base/text/nearest.hpp"
#include "ir/ops/families.hpp"
#include "ir/test_cases/op_cases.hpp"

// Weights in the block formats of GGUF files.

namespace headroom::ops {
namespace {

/// The format that the attribute names.
const BlockFormat& format_of(const Attributes& attributes) {
  const std::string& name = attributes[attr::kFormat];
  const BlockFormat* const format = find_block_format(name);
  if (format != nullptr && format->is_packed()) return *format;
  std::vector<std::string> known;
  for (const BlockFormat& each : block_formats())
    if (each.is_packed()) known.emplace_back(each.name);
  fail("unpack_blocks: format is '{}', which is no block format that is read{}", name, did_you_mean(name, known));
}

std::vector<TensorType> unpack_types(const TypeQuery& given) {
  const BlockFormat& format = format_of(given.attributes);
  const TensorType& blocks = given.in[0];
  const DType dtype = given.attributes[attr::kDType];
  given.require(blocks.dtype == DType::kU8 && blocks.shape.rank() == 3 && blocks.shape[2] == format.bytes,
                fmt::format("blocks[n, b, {}] of {} in u8", format.bytes, format.name));
  const bool has_scale = given.in.size() > 1;
  if (has_scale) {
    given.require(given.in[1] == TensorType{DType::kF32, Shape{blocks.shape[0]}},
                  "blocks[n, b, bytes] and scale[n] in f32");
    if (dtype != DType::kF8E4M3) fail("unpack_blocks: dtype is {}, expected f8e4m3 with a scale", dtype);
  } else if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    fail("unpack_blocks: dtype is {}, expected f32, bf16 or f16 without a scale", dtype);
  }
  return {{dtype, Shape{blocks.shape[0], blocks.shape[1] * format.elements}}};
}

/// In f32, because every kernel computes exactly these bits.
void unpack(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  constexpr float kLargest = 448;
  const BlockFormat& format = format_of(attributes);
  std::vector<std::byte> blocks(in[0]->integers.size());
  std::ranges::transform(in[0]->integers, blocks.begin(),
                         [](std::int64_t byte) { return static_cast<std::byte>(byte); });
  std::vector<float> values(out[0].reals.size());
  unpack_blocks(format, blocks, values);
  const std::size_t columns = extent(out[0], 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float value = values[i];
    if (in.size() > 1) {
      value *= 1.0F / static_cast<float>(in[1]->reals[i / columns]);
      if (std::fabs(value) > kLargest) value = std::copysign(kLargest, value);
    }
    out[0].reals[i] = round_to(out[0].type.dtype, static_cast<double>(value));
  }
}

void unpack_cases(CaseList& list) {
  const DType dtype = list.types().data;
  if (!is_float(dtype) || list.types().vector != dtype) return;
  for (const BlockFormat& format : block_formats()) {
    if (!format.is_packed()) continue;
    const NamedAttribute name{attr::kFormat, std::string(format.name)};
    for (const Shape& rows : {Shape{1, 1}, Shape{5, 3}}) {
      const TensorType blocks{DType::kU8, {rows[0], rows[1], format.bytes}};
      list.add(fmt::format("{}, {} rows of {}", format.name, rows[0], rows[1]), {blocks}, {name, {attr::kDType, dtype}})
          .tolerance = {.relative_l2 = 0};
      if (dtype == DType::kF32)
        list.add(fmt::format("{} in f8e4m3, {} rows of {}", format.name, rows[0], rows[1]),
                 {blocks, {DType::kF32, {rows[0]}}}, {name, {attr::kDType, DType::kF8E4M3}})
            .tolerance = {.relative_l2 = 0};
    }
  }
}

/// A large matrix of a model of 12 B parameters.
void large_unpack_cases(CaseList& list) {
  constexpr std::int64_t kRows = 21504;
  for (const char* const name : {"Q4_0", "Q8_0", "Q4_K", "Q6_K"}) {
    const BlockFormat& format = *find_block_format(name);
    const TensorType blocks{DType::kU8, {4 * kRows, kLargeWidth / format.elements, format.bytes}};
    list.add(fmt::format("unpack_blocks {} to bf16", name), {blocks},
             {{attr::kFormat, std::string(name)}, {attr::kDType, DType::kBF16}});
    list.add(fmt::format("unpack_blocks {} to f8e4m3", name), {blocks, {DType::kF32, {4 * kRows}}},
             {{attr::kFormat, std::string(name)}, {attr::kDType, DType::kF8E4M3}})
        .is_for_gpus = true;
  }
}

constexpr std::array kPackedWeights = {OpDefinition{.op = Op::kUnpackBlocks,
                                                    .infer = unpack_types,
                                                    .evaluate = unpack,
                                                    .no_derivative = "reads the bytes of packed weights",
                                                    .flops = 2,
                                                    .stays_f32 = true,
                                                    .cases = unpack_cases,
                                                    .benchmarks = large_unpack_cases}};

}  // namespace

std::span<const OpDefinition> packed_weights() { return kPackedWeights; }

}  // namespace headroom::ops
