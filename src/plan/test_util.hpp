#pragma once

/// Shared by tests of plans and of their sessions; included by *_test.cpp only.
namespace headroom {

/// The samples of one value are its columns, so an op that reads and overwrites it by rows is cut differently.
inline constexpr const char* kMixedSamples = R"(graph mixed {
  input %x: f32[64, 64, 96]
  %1: f32[64, 64, 96] = silu(%x)
  %2: f32[64, 64, 96] = transpose(%1) {perm = [1, 0, 2]}
  %3: f32[64, 64, 96] = softmax(%1)
  %4: f32[64, 64, 96] = softmax(%2)
  %5: f32[64, 64, 96] = add(%3, %4)
  %6: f32[64, 64, 96] = silu(%5)
  output y = %6
})";

/// An output that later steps read too.
inline constexpr const char* kEarlyOutput = R"(graph out {
  input %x: f32[8, 64, 96]
  %1: f32[8, 64, 96] = silu(%x)
  %2: f32[8, 64, 96] = softmax(%1)
  %3: f32[8, 64, 96] = silu(%2)
  %4: f32[8, 64, 96] = add(%3, %1)
  output y = %4
  output early = %2
})";

}  // namespace headroom
