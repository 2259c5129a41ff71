#pragma once

#include <ostream>

/// Programs that give wrong results if a plan omits one copy too many; included by *_test.cpp only.
namespace headroom {

struct SemanticCase {
  const char* name;
  const char* body;  ///< between kSemanticDeclarations and the end
};

inline void PrintTo(const SemanticCase& tried, std::ostream* out) { *out << tried.name; }

/// Declarations shared by all cases.
inline constexpr const char* kSemanticDeclarations = R"(graph g {
  input %x: f32[4, 4]
  input %d: f32[3, 4, 4]
  input %hit: bool[]
  param %w: f32[4, 4]
  state %s: f32[4, 4]
  state %t: f32[4, 4]
  state %u: f32[4, 4]
  state %cube: f32[3, 3, 4]
)";

inline constexpr SemanticCase kSemanticCases[] = {
    {"WhatWasMadeBeforeALoopOutlivesItsLastNode", R"(
  %1: f32[4, 4] = silu(%x)
  loop 3 %i {
    %2: f32[4, 4] = add(%s, %1)
    %3: f32[4, 4] = relu(%1)
    next %s = %2
    yield %4: f32[4, 4] = %3
  }
  output y = %4
  output s = %s)"},
    {"AViewMadeBeforeALoopIsNotOverwrittenInIt", R"(
  %1: f32[4, 4] = silu(%x)
  %2: f32[16] = reshape(%1) {shape = [16]}
  loop 3 %i {
    %3: f32[16] = relu(%2)
    %4: f32[16] = mul_scalar(%2) {value = 3}
    %5: f32[16] = add(%3, %4)
    %6: f32[4, 4] = reshape(%5) {shape = [4, 4]}
    %7: f32[4, 4] = add(%s, %6)
    next %s = %7
  }
  output s = %s)"},
    {"AViewOfAStateHoldsWhatItHeld", R"(
  %1: f32[16] = reshape(%s) {shape = [16]}
  %2: f32[4, 4] = transpose(%t) {perm = [1, 0]}
  loop 3 %i {
    %3: f32[4, 4] = row(%d, %i)
    %4: f32[4, 4] = add(%s, %3)
    %5: f32[4, 4] = add(%t, %2)
    next %s = %4
    next %t = %5
  }
  %6: f32[16] = relu(%1)
  %7: f32[4, 4] = mul(%2, %s)
  output early = %6
  output late = %7)"},
    {"StatesSwap", R"(
  loop 3 %i {
    %1: f32[4, 4] = row(%d, %i)
    %2: f32[4, 4] = add(%u, %1)
    next %s = %t
    next %t = %s
    next %u = %2
  }
  output s = %s
  output t = %t)"},
    {"StatesGoRoundWithoutANode", R"(
  loop 2 %i {
    next %s = %t
    next %t = %u
    next %u = %s
  }
  %1: f32[4, 4] = add(%s, %x)
  output y = %1)"},
    {"StatesPassOnInAChain", R"(
  %1: f32[4, 4] = add(%s, %x)
  next %s = %1
  next %t = %s
  next %u = %t
  output y = %1)"},
    {"AStateAndAViewOfItMakeItsNextValue", R"(
  loop 3 %i {
    %1: f32[3, 3, 4] = transpose(%cube) {perm = [1, 0, 2]}
    %2: f32[3, 3, 4] = add(%cube, %1)
    next %cube = %2
  }
  output cube = %cube)"},
    {"AStateTwiceMakesItsNextValue", R"(
  %1: f32[4, 4] = add(%s, %s)
  next %s = %1)"},
    {"ANextValueIsAViewOfItsState", R"(
  loop 3 %i {
    %1: f32[4, 4] = transpose(%s) {perm = [1, 0]}
    next %s = %1
  })"},
    {"ANextValueIsAViewOfAnotherState", R"(
  loop 3 %i {
    %1: f32[16] = reshape(%t) {shape = [16]}
    %2: f32[4, 4] = reshape(%1) {shape = [4, 4]}
    %3: f32[4, 4] = add(%t, %x)
    next %s = %2
    next %t = %3
  }
  output s = %s)"},
    {"ParamsInputsAndWeightsAreNextValuesResultsAndOutputs", R"(
  %1: f32[4, 4] = relu(%w)
  loop 2 %i {
    %2: f32[4, 4] = add(%u, %x)
    next %s = %w
    next %t = %x
    next %u = %2
    yield %3: f32[4, 4] = %1
    yield %4: f32[4, 4] = %x
    yield %5: i32[] = %i
  }
  output w = %w
  output folded = %1
  output x = %x
  output three = %3
  output four = %4
  output turn = %5)"},
    {"OneValueIsNextOfTwoStates", R"(
  loop 3 %i {
    %1: f32[4, 4] = add(%s, %t)
    next %s = %1
    next %t = %1
  }
  output s = %s)"},
    {"TheLastNodeLeavesWhatIsPending", R"(
  loop 3 %i {
    %1: f32[4, 4] = add(%s, %x)
    %2: f32[4, 4] = mul(%1, %s)
    %3: f32[4, 4] = relu(%1)
    next %s = %1
    next %t = %2
    next %u = %3
    yield %4: f32[4, 4] = %1
  }
  output y = %4)"},
    {"APendingStateIsNotOverwritten", R"(
  %1: f32[4, 4] = add(%s, %x)
  next %s = %1
  next %t = %s
  output t = %t
  output s = %s)"},
    {"ALoopYieldsWhatTheLastIterationFound", R"(
  loop 3 %i {
    %1: f32[4, 4] = row(%d, %i)
    %2: f32[4, 4] = add(%s, %1)
    next %s = %2
    yield %3: f32[4, 4] = %s
    yield %4: f32[4, 4] = %1
    yield %5: f32[4, 4] = %2
  }
  %6: f32[4, 4] = add(%3, %4)
  %7: f32[4, 4] = add(%6, %5)
  output y = %7
  output found = %3)"},
    {"LoopsNest", R"(
  %1: f32[4, 4] = silu(%x)
  loop 2 %i {
    %2: f32[4, 4] = relu(%s)
    %3: f32[16] = reshape(%s) {shape = [16]}
    loop 3 %j {
      %4: f32[4, 4] = row(%d, %j)
      %5: f32[4, 4] = mul(%4, %1)
      %6: f32[4, 4] = add(%s, %5)
      %7: f32[4, 4] = add(%6, %2)
      next %s = %7
      yield %8: f32[4, 4] = %6
    }
    %9: f32[4, 4] = reshape(%3) {shape = [4, 4]}
    %10: f32[4, 4] = add(%9, %8)
    %11: f32[4, 4] = add(%t, %10)
    next %t = %11
    yield %12: f32[4, 4] = %8
  }
  %13: f32[4, 4] = add(%s, %12)
  output y = %13
  output t = %t)"},
    {"AResultOfAnInnerLoopIsTheNextValue", R"(
  loop 2 %i {
    loop 3 %j {
      %1: f32[4, 4] = row(%d, %j)
      %2: f32[4, 4] = add(%s, %1)
      yield %3: f32[4, 4] = %2
    }
    next %s = %3
  }
  output s = %s)"},
    {"AnIfRunsOneBranch", R"(
  %1: f32[4, 4] = silu(%x)
  if %hit {
    %2: f32[4, 4] = relu(%1)
    %3: f32[4, 4] = add(%s, %2)
    next %s = %3
    yield %4: f32[4, 4] = %2
  } else {
    %5: f32[4, 4] = mul(%1, %s)
    next %t = %5
    yield %4 = %5
  }
  %6: f32[4, 4] = add(%4, %s)
  %7: f32[4, 4] = add(%6, %1)
  output y = %7
  output t = %t)"},
    {"AnIfWithoutElseYieldsWhatItSaysInstead", R"(
  %1: f32[4, 4] = silu(%x)
  %2: f32[4, 4] = relu(%x)
  if %hit {
    %3: f32[4, 4] = mul(%1, %1)
    yield %4: f32[4, 4] = %3 else %1
    yield %5: f32[4, 4] = %3 else %w
    yield %6: f32[4, 4] = %s else %x
  }
  %7: f32[4, 4] = add(%4, %5)
  %8: f32[4, 4] = add(%7, %1)
  output y = %8
  output six = %6)"},
    {"BothBranchesUpdateAState", R"(
  loop 3 %i {
    %1: f32[4, 4] = row(%d, %i)
    %2: f32[16] = reshape(%s) {shape = [16]}
    if %hit {
      %3: f32[4, 4] = add(%s, %1)
      next %s = %3
      next %t = %s
    } else {
      %4: f32[4, 4] = mul(%s, %1)
      %5: f32[4, 4] = reshape(%2) {shape = [4, 4]}
      %6: f32[4, 4] = add(%4, %5)
      next %s = %6
    }
    %7: f32[16] = relu(%2)
    %8: f32[4, 4] = reshape(%7) {shape = [4, 4]}
    %9: f32[4, 4] = add(%u, %8)
    next %u = %9
  }
  %10: f32[4, 4] = add(%s, %t)
  output y = %10)"},
    {"ACacheIsFilledOrRead", R"(
  loop 3 %i {
    %1: f32[4, 4] = row(%d, %i)
    if %hit {
      yield %2: f32[4, 4] = %t
    } else {
      %3: f32[4, 4] = silu(%1)
      next %t = %3
      yield %2 = %3
    }
    %4: f32[4, 4] = add(%s, %2)
    next %s = %4
  }
  output s = %s
  output t = %t)"},
    {"ABranchHoldsALoopThatUpdates", R"(
  loop 2 %k {
    if %hit {
      loop 3 %i {
        %1: f32[4, 4] = row(%d, %i)
        %2: f32[4, 4] = add(%s, %1)
        next %s = %2
      }
      %3: f32[4, 4] = relu(%s)
      yield %4: f32[4, 4] = %3 else %x
    }
    %5: f32[4, 4] = add(%4, %s)
    %6: f32[4, 4] = add(%t, %5)
    next %t = %6
  }
  output t = %t
  output s = %s)"},
    {"AnIfChoosesWithoutANode", R"(
  %1: f32[4, 4] = silu(%x)
  if %hit {
    next %s = %t
    next %t = %s
    yield %2: f32[4, 4] = %1 else %s
  }
  %3: f32[4, 4] = add(%2, %s)
  output y = %3)"},
    {"AResultOfTwoRegionsIsOneValue", R"(
  if %hit {
    %1: f32[4, 4] = silu(%x)
    yield %2: f32[4, 4] = %1 else %x
    yield %3: f32[4, 4] = %1 else %w
  }
  loop 2 %i {
    %4: f32[4, 4] = add(%s, %2)
    next %s = %4
    yield %5: f32[4, 4] = %2
    yield %6: f32[4, 4] = %2
  }
  %7: f32[4, 4] = add(%5, %3)
  %8: f32[4, 4] = add(%6, %7)
  output y = %8
  output two = %2)"},
};

}  // namespace headroom
