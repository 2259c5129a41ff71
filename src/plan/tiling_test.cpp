#include "plan/tiling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "plan/test_util.hpp"

namespace headroom {
namespace {

/// Attention of each sample over itself and a copy, then an op that mixes samples.
constexpr const char* kChain = R"(graph chain {
  input %x: f32[8, 64, 96]
  input %m: f32[8, 1, 96]
  %2: f32[8, 64, 96] = norm_modulate(%x, %m, %m) {eps = 1e-06}
  %3: f32[8, 64, 96] = silu(%2)
  %4: f32[8, 128, 96] = concat(%3, %2) {axis = 1}
  %5: f32[8, 128, 3, 32] = reshape(%4) {shape = [8, 128, 3, 32]}
  %6: f32[8, 3, 128, 32] = transpose(%5) {perm = [0, 2, 1, 3]}
  %7: f32[8, 3, 128, 128] = matmul(%6, %6) {transpose_b = 1}
  %8: f32[8, 3, 128, 128] = softmax(%7)
  %9: f32[8, 3, 128, 32] = matmul(%8, %6) {transpose_b = 0}
  %10: f32[8, 128, 3, 32] = transpose(%9) {perm = [0, 2, 1, 3]}
  %11: f32[8, 128, 96] = reshape(%10) {shape = [8, 128, 96]}
  %12: f32[8, 64, 96] = slice(%11) {axis = 1, start = 64, size = 64}
  %13: f32[8, 64, 96] = gate_residual(%x, %m, %12)
  %14: f32[64, 8, 96] = transpose(%13) {perm = [1, 0, 2]}
  %15: f32[64, 8, 96] = silu(%14)
  output y = %15
})";

Target target_of(int threads, std::size_t core_cache_bytes) {
  return {.cpu_isa = CpuIsa::kAvx2, .threads = threads, .core_cache_bytes = core_cache_bytes};
}

Program plan_tiled(int threads, std::size_t core_cache_bytes, const char* text = kChain) {
  return plan(parse_graph(text), target_of(threads, core_cache_bytes), {.arena = true, .tile = true});
}

constexpr std::size_t kMebibyte = 1 << 20;
constexpr std::size_t kCache = 2 * kMebibyte;

TEST(Tiling, AChainOfSamplesIsRunPartByPart) {
  const Program program = plan_tiled(2, kCache);
  ASSERT_EQ(program.tiled.size(), 1U);
  const TiledRun& run = program.tiled[0];
  EXPECT_EQ(run.parts, 4);
  EXPECT_EQ(program.steps[static_cast<std::size_t>(run.first)].op, Op::kNormModulate);
  EXPECT_EQ(program.steps[static_cast<std::size_t>(run.last) - 1].op, Op::kGateResidual);
  ASSERT_EQ(run.prepared.size(), static_cast<std::size_t>(run.last - run.first));
  for (const auto& by_thread : run.prepared) {
    ASSERT_EQ(by_thread.size(), 2U);
    EXPECT_NE(by_thread[0], by_thread[1]) << "threads would wait for each other";
  }
  EXPECT_EQ(tiled_run_at(program, run.first), &run);
  EXPECT_EQ(tiled_run_at(program, run.last), nullptr);
  EXPECT_THAT(to_text(program, false), testing::HasSubstr("4 parts, each on one thread"));
}

TEST(Tiling, WhatPassesBetweenItsStepsNeedsMemoryForOnePartAThread) {
  const Program program = plan_tiled(2, kCache);
  const Program whole = plan(parse_graph(kChain), target_of(2, kCache), {.arena = true});
  ASSERT_EQ(program.tiled.size(), 1U);
  const TiledRun& run = program.tiled[0];
  EXPECT_LT(program.arena_bytes, whole.arena_bytes * 3 / 4);
  const Storage& memory = program.storages[static_cast<std::size_t>(run.memory)];
  EXPECT_EQ(memory.kind, StorageKind::kArena);
  EXPECT_EQ(memory.bytes, 2 * run.thread_bytes);
  for (const Storage& storage : program.storages) {
    if (storage.kind == StorageKind::kPart) {
      EXPECT_LE(storage.arena_offset + storage.bytes, run.thread_bytes);
    }
    if (storage.kind != StorageKind::kArena || storage.last < run.first || storage.first >= run.last) continue;
    EXPECT_LE(storage.first, run.first) << "parts are at different steps at the same time";
    EXPECT_GE(storage.last, run.last - 1);
  }
}

TEST(Tiling, OperandsAdvanceByTheirPart) {
  const Program program = plan_tiled(2, kCache);
  ASSERT_EQ(program.tiled.size(), 1U);
  const Step& first = program.steps[static_cast<std::size_t>(program.tiled[0].first)];
  EXPECT_EQ(first.input_places[0].bytes_between_parts, 2U * 64 * 96 * 4);  // x
  EXPECT_EQ(first.input_places[1].bytes_between_parts, 2U * 96 * 4);       // m
  EXPECT_EQ(first.output_places[0].bytes_between_parts, 0U);               // in the thread's memory
}

TEST(Tiling, NeedsEnoughEqualPartsForItsThreads) {
  EXPECT_EQ(plan_tiled(1, kCache).tiled.size(), 1U);
  EXPECT_EQ(plan_tiled(4, kCache).tiled.size(), 1U);
  EXPECT_TRUE(plan_tiled(3, kCache).tiled.empty()) << "one of three threads would wait for a third of the time";
  EXPECT_TRUE(plan_tiled(8, kCache).tiled.empty()) << "a slow core would hold the others up";
}

TEST(Tiling, NeedsACacheThatHoldsAPart) {
  EXPECT_TRUE(plan_tiled(2, 0).tiled.empty());
  EXPECT_TRUE(plan_tiled(2, 64 * 1024).tiled.empty());
}

TEST(Tiling, SmallStepsAreNotWorthTheirLaunches) {
  EXPECT_TRUE(plan_tiled(2, kCache, R"(graph small {
    input %x: f32[8, 4, 16]
    %1: f32[8, 4, 16] = silu(%x)
    %2: f32[8, 4, 16] = softmax(%1)
    output y = %2
  })")
                  .tiled.empty());
}

TEST(Tiling, MatmulsKeepRowsEnough) {
  constexpr const char* kMatmuls = R"(graph products {
    input %x: f32[16, ROWS, 256]
    param %w: f32[1024, 256]
    param %v: f32[256, 1024]
    %3: f32[16, ROWS, 1024] = linear(%x, %w) {epilogue = gelu_tanh(sum)}
    %4: f32[16, ROWS, 256] = linear(%3, %v)
    output y = %4
  })";
  const auto parts_at = [&](const std::string& rows) {
    std::string text = kMatmuls;
    for (std::size_t at = text.find("ROWS"); at != std::string::npos; at = text.find("ROWS")) text.replace(at, 4, rows);
    const Program program = plan_tiled(2, 8 * kMebibyte, text.c_str());
    return program.tiled.empty() ? 0 : program.tiled[0].parts;
  };
  EXPECT_EQ(parts_at("16"), 4) << "64 rows a part";
  EXPECT_EQ(parts_at("15"), 0) << "fewer parts would be too few for two threads";
}

/// The byte range of a storage that a part of an operand covers.
struct Reach {
  int storage;
  std::size_t begin, end;
};

Reach reach_of(const Place& place, const TensorType& type, std::int64_t parts, std::int64_t part) {
  std::size_t last = 0;
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    const std::int64_t extent = axis == 0 && place.bytes_between_parts > 0 ? type.shape[0] / parts : type.shape[axis];
    last += static_cast<std::size_t>((extent - 1) * place.strides[axis]) * size_of(type.dtype);
  }
  const std::size_t begin = place.offset_bytes + static_cast<std::size_t>(part) * place.bytes_between_parts;
  return {place.storage, begin, begin + last + size_of(type.dtype)};
}

/// No part of a tiled run writes data that another reads or writes, except in its thread's own memory.
void expect_parts_apart(const Program& program) {
  const auto is_own = [&](const Reach& reach) {
    return program.storages[static_cast<std::size_t>(reach.storage)].kind == StorageKind::kPart;
  };
  for (const TiledRun& run : program.tiled) {
    std::vector<Reach> written, touched;  // by part 0, and by part 1
    for (int i = run.first; i < run.last; ++i) {
      const Step& step = program.steps[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < step.outputs.size(); ++k) {
        written.push_back(reach_of(step.output_places[k], program.graph.type(step.outputs[k]), run.parts, 0));
        touched.push_back(reach_of(step.output_places[k], program.graph.type(step.outputs[k]), run.parts, 1));
      }
      for (std::size_t k = 0; k < step.inputs.size(); ++k)
        touched.push_back(reach_of(step.input_places[k], program.graph.type(step.inputs[k]), run.parts, 1));
    }
    for (const Reach& a : written)
      for (const Reach& b : touched)
        EXPECT_TRUE(a.storage != b.storage || is_own(a) || a.end <= b.begin || b.end <= a.begin)
            << "storage " << a.storage << ": [" << a.begin << ", " << a.end << ") and [" << b.begin << ", " << b.end
            << ")";
  }
}

TEST(Tiling, PartsTouchNoByteThatAnotherWrites) {
  expect_parts_apart(plan_tiled(2, kCache));
  const Program mixed = plan_tiled(2, 2 * kCache, kMixedSamples);
  EXPECT_EQ(mixed.tiled.size(), 2U);
  expect_parts_apart(mixed);
}

TEST(Tiling, WhatIsPutOutOutlivesItsTile) {
  const Program program = plan_tiled(2, kCache, kEarlyOutput);
  ASSERT_EQ(program.tiled.size(), 1U);
  for (const Output& output : program.graph.outputs()) {
    const int storage = program.places[index_of(output.value)].storage;
    EXPECT_EQ(program.storages[static_cast<std::size_t>(storage)].kind, StorageKind::kArena) << output.name;
  }
}

}  // namespace
}  // namespace headroom
