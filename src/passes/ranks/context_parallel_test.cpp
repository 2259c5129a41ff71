#include <gtest/gtest.h>

#include <numeric>

#include "ir/ranks/collectives.hpp"
#include "passes/ranks/token_sharing.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// Two steps of a loop with joint attention of 3 heads over 5 text and 7 image tokens, of two images, and a distance as
/// of a step cache. The sampler's state is the latents; `kept` is a state as a step cache adds it.
constexpr std::string_view kLoop = R"(graph g {
  input %text: f32[2, 5, 4]
  input %ids: f32[12, 1]
  input %scale: f32[2, 1, 6]
  state %latents: f32[2, 7, 6]
  state %kept: f32[2, 7, 6]
  param %wt: f32[6, 4]
  param %wi: f32[6, 6]
  param %wq: f32[6, 6]
  param %wk: f32[6, 6]
  param %wv: f32[6, 6]
  param %norm: f32[2]
  %0: f32[12, 1], %1: f32[12, 1] = rope_table(%ids) {axes = [2]}
  loop 2 %step {
    %2: f32[2, 5, 6] = linear(%text, %wt) @ text
    %3: f32[2, 7, 6] = linear(%latents, %wi) @ image
    %4: f32[2, 12, 6] = concat(%2, %3) {axis = 1}
    %5: f32[2, 12, 6] = layer_norm(%4) {eps = 1e-6}
    %6: f32[2, 12, 6] = mul(%5, %scale)
    %7: f32[2, 12, 6] = linear(%6, %wq) @ attn.q
    %8: f32[2, 12, 3, 2] = reshape(%7) {shape = [2, 12, 3, 2]}
    %9: f32[2, 3, 12, 2] = transpose(%8) {perm = [0, 2, 1, 3]}
    %10: f32[2, 3, 12, 2] = rms_norm(%9, %norm) {eps = 1e-6}
    %11: f32[2, 3, 12, 2] = rope(%10, %0, %1)
    %12: f32[2, 12, 6] = linear(%6, %wk) @ attn.k
    %13: f32[2, 12, 3, 2] = reshape(%12) {shape = [2, 12, 3, 2]}
    %14: f32[2, 3, 12, 2] = transpose(%13) {perm = [0, 2, 1, 3]}
    %15: f32[2, 3, 12, 2] = rope(%14, %0, %1)
    %16: f32[2, 12, 6] = linear(%6, %wv) @ attn.v
    %17: f32[2, 12, 3, 2] = reshape(%16) {shape = [2, 12, 3, 2]}
    %18: f32[2, 3, 12, 2] = transpose(%17) {perm = [0, 2, 1, 3]}
    %19: f32[2, 3, 12, 2] = mul_scalar(%11) {value = 0.7}
    %20: f32[2, 3, 12, 12] = matmul(%19, %15) {transpose_b = 1} @ attn
    %21: f32[2, 3, 12, 12] = softmax(%20) @ attn
    %22: f32[2, 3, 12, 2] = matmul(%21, %18) @ attn
    %23: f32[2, 12, 3, 2] = transpose(%22) {perm = [0, 2, 1, 3]}
    %24: f32[2, 12, 6] = reshape(%23) {shape = [2, 12, 6]}
    %25: f32[2, 7, 6] = slice(%24) {axis = 1, start = 5, size = 7}
    %26: f32[2, 7, 6] = sub(%25, %kept)
    %27: f32[2, 7, 6] = abs(%26)
    %28: f32[2, 7] = mean(%27) {axes = [2]} @ cache
    %29: f32[14] = reshape(%28) {shape = [14]} @ cache
    %30: f32[] = mean(%29) {axes = [0]} @ cache
    %31: f32[] = amax(%29) {axes = [0]} @ cache
    %32: bool[] = less(%30, %31)
    if %32 {
      %33: f32[2, 7, 6] = mul_scalar(%kept) {value = 0.5}
      yield %34: f32[2, 7, 6] = %33
    } else {
      %35: f32[2, 7, 6] = silu(%25)
      yield %34 = %35
    }
    %36: f32[2, 7, 6] = add(%latents, %34)
    next %latents = %36
    next %kept = %25
    yield %37: f32[] = %30
    yield %38: f32[] = %31
  }
  output latents = %latents
  output mean = %37
  output largest = %38
})";

const std::vector<TokenInput> kTokens = {{"latents", 1}, {"text", 1}};

/// The graph of each rank, after the pass or under several switches.
std::vector<Graph> ranks_of(std::string_view text, std::string_view argument, std::string_view switches = {},
                            const std::vector<TokenInput>& tokens = kTokens) {
  std::vector<Graph> graphs;
  for (int rank = 0; rank < ContextParallel::parse(argument).ranks; ++rank) {
    const TokenSharing sharing{.rank = rank, .tokens = tokens};
    Target target = kCapableCpu;
    target.sharing = &sharing;
    graphs.push_back(parse_graph(text));
    if (switches.empty()) {
      EXPECT_EQ(run_pass("context-parallel", graphs.back(), target, argument).declined, std::nullopt);
      continue;
    }
    const OptimizeReport report =
        optimize(graphs.back(), SwitchSet::parse(fmt::format("cp={},{}", argument, switches)), target);
    EXPECT_EQ(std::ranges::find(report.declined, "cp", &Declined::switch_name), report.declined.end());
  }
  return graphs;
}

/// What the pass says where it declines.
std::string refusal(std::string_view text, std::string_view argument,
                    const std::optional<std::vector<TokenInput>>& tokens = kTokens) {
  const TokenSharing sharing{.rank = 0, .tokens = tokens.value_or(kTokens)};
  Target target = kCapableCpu;
  if (tokens) target.sharing = &sharing;
  Graph graph = parse_graph(text);
  const std::string before = canonical_text(graph);
  const PassOutcome outcome = run_pass("context-parallel", graph, target, argument);
  EXPECT_EQ(outcome.rewrites, 0);
  EXPECT_EQ(canonical_text(graph), before);
  return outcome.declined.value_or("");
}

/// The largest distance of an output of a rank from that of the whole graph, on random tensors. States that ranks share
/// start as zeros.
double distance_of_ranks(std::string_view text, const std::vector<Graph>& graphs) {
  constexpr std::uint64_t kSeed = 7;
  const Graph whole = parse_graph(text);
  NamedTensors states = random_tensors(whole, ValueKind::kState, kSeed);
  if (states.contains("kept")) states["kept"] = HostTensor(DType::kF32, states["kept"].shape());
  const NamedTensors inputs = random_tensors(whole, ValueKind::kInput, kSeed),
                     params = random_tensors(whole, ValueKind::kParam, kSeed);
  const OracleResult expected = interpret(whole, inputs, params, states);
  std::vector<RankTensors> given;
  for (const Graph& graph : graphs) {
    NamedTensors own = states;
    if (const ValueId kept = graph.find(ValueKind::kState, "kept"); kept != kNoValue)
      own["kept"] = HostTensor(DType::kF32, graph.type(kept).shape);
    given.push_back({.inputs = inputs, .params = params, .states = own});
  }
  double largest = 0;
  for (const OracleResult& result : interpret_ranks(graphs, given))
    largest = std::max(largest, distance(result.outputs, expected.outputs));
  return largest;
}

TEST(ContextParallel, RanksComputeWhatOneRankDoes) {
  for (const char* argument :
       {"2", "2:ulysses", "2:ring", "3", "3:ulysses", "3:ring", "4", "4:ring", "4:2x2", "4:1x4", "5:ring"}) {
    SCOPED_TRACE(argument);
    const std::vector<Graph> graphs = ranks_of(kLoop, argument);
    EXPECT_LE(distance_of_ranks(kLoop, graphs), 1e-12);
  }
}

// Texts one after the other, which the network takes apart.
TEST(ContextParallel, SharesEachOfSeveralTexts) {
  std::string text(kLoop);
  const auto replace = [&](std::string_view from, std::string_view to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("input %text: f32[2, 5, 4]", "input %texts: f32[10, 4]");
  replace("%2: f32[2, 5, 6] = linear(%text, %wt)",
          "%100: f32[2, 5, 4] = reshape(%texts) {shape = [2, 5, 4]}\n    %2: f32[2, 5, 6] = linear(%100, %wt)");
  const std::vector<TokenInput> tokens = {{"latents", 1}, {"texts", 0, {5, 5}}};
  for (const char* argument : {"3:ulysses", "4:ring"})
    EXPECT_LE(distance_of_ranks(text, ranks_of(text, argument, {}, tokens)), 1e-12) << argument;
  EXPECT_EQ(refusal(text, "2", std::vector<TokenInput>{{"latents", 1}, {"texts", 0}}),
            "reshape splits or merges the axis of tokens, which ranks cannot share");
}

TEST(ContextParallel, StaysInOrderThroughAllPasses) {
  for (const char* argument : {"2", "3:ulysses", "3:ring", "4:2x2"})
    for (const char* switches : {"arena", "fuse", "hoist", "flash,fuse,hoist"}) {
      SCOPED_TRACE(fmt::format("{} with {}", argument, switches));
      EXPECT_LE(distance_of_ranks(kLoop, ranks_of(kLoop, argument, switches)), 1e-12);
    }
}

int count(const Graph& graph, Op op) { return static_cast<int>(std::ranges::count(graph.nodes(), op, &Node::op)); }

TEST(ContextParallel, ExchangesHeadsOrPassesKeysAround) {
  const Graph ulysses = ranks_of(kLoop, "3:ulysses")[0];
  EXPECT_EQ(count(ulysses, Op::kAllToAll), 4);  // queries, keys and values, and the result back
  EXPECT_EQ(count(ulysses, Op::kShift), 0);
  EXPECT_EQ(count(ulysses, Op::kAttention), 1);
  EXPECT_EQ(count(ulysses, Op::kAllGather), 1);  // the latents
  EXPECT_EQ(count(ulysses, Op::kAllReduce), 2);

  const Graph ring = ranks_of(kLoop, "3:ring")[0];
  EXPECT_EQ(count(ring, Op::kAllToAll), 0);
  EXPECT_EQ(count(ring, Op::kShift), 4);  // keys and values, twice
  EXPECT_EQ(count(ring, Op::kAttention), 3);
  EXPECT_EQ(count(ring, Op::kMergeAttention), 1);

  const Graph both = ranks_of(kLoop, "4:2x2")[0];
  EXPECT_EQ(count(both, Op::kAllToAll), 4);
  EXPECT_EQ(count(both, Op::kShift), 2);
  EXPECT_EQ(count(both, Op::kAttention), 2);
}

TEST(ContextParallel, ChoosesByTheHeads) {
  EXPECT_EQ(count(ranks_of(kLoop, "3")[0], Op::kShift), 0) << "3 heads for 3 ranks";
  EXPECT_EQ(count(ranks_of(kLoop, "2")[0], Op::kAllToAll), 0) << "2 ranks cannot have equally many of 3 heads";
}

TEST(ContextParallel, EachRankHasItsShareOfTheTokens) {
  std::int64_t queries = 0;
  for (const Graph& graph : ranks_of(kLoop, "4:ring")) {
    const auto attention = std::ranges::find(graph.nodes(), Op::kAttention, &Node::op);
    queries += graph.type(attention->inputs[0]).shape[2];
    EXPECT_LE(graph.type(attention->inputs[0]).shape[2], 4) << "2 of text and 2 of the image at most";
    EXPECT_EQ(graph.type(graph.find(ValueKind::kState, "latents")).shape[1], 7) << "the pipeline sets it";
    EXPECT_LE(graph.type(graph.find(ValueKind::kState, "kept")).shape[1], 2);
  }
  EXPECT_EQ(queries, 12);
}

TEST(ContextParallel, SaysWhyItDeclines) {
  EXPECT_EQ(refusal(kLoop, "1"), "one rank has all tokens already");
  EXPECT_EQ(refusal(kLoop, "2", std::nullopt), "ranks share the denoise loop of a request, and this is none");
  EXPECT_EQ(refusal(kLoop, "2", std::vector<TokenInput>{}), "the pipeline names no tokens that ranks can share");
  EXPECT_EQ(refusal(kLoop, "6"), "6 ranks cannot share 5 tokens");
  EXPECT_EQ(refusal(kLoop, "4:ulysses"),
            "attention at attn has 3 heads, which 4 ranks cannot exchange for tokens: give cp=4:ring");
  const auto with_x = [](std::string_view nodes) {
    return fmt::format("graph g {{\n  input %x: f32[1, 4, 4, 8]\n  param %w: f32[4, 4, 3, 3]\n{}\n  output y = %1\n}}",
                       nodes);
  };
  const std::vector<TokenInput> x = {{"x", 2}};
  const std::string convolution = with_x("  %1: f32[1, 4, 4, 8] = conv2d(%x, %w) {padding = [1, 1, 1, 1]} @ conv_in");
  EXPECT_EQ(refusal(convolution, "2", x), "conv2d at conv_in mixes tokens, which ranks cannot share");
  EXPECT_EQ(refusal(convolution, "2", std::vector<TokenInput>{}),
            "conv2d at conv_in is a convolution over pixels, which ranks cannot share");
  EXPECT_EQ(refusal(with_x("  %1: f32[1, 4, 4, 8] = attention(%x, %x, %x) {causal = 1} @ attn"), "2", x),
            "attention at attn is causal, which ranks cannot share");
  EXPECT_EQ(refusal(with_x("  %1: f32[1, 4, 2, 8] = slice(%x) {axis = 2, start = 1, size = 2} @ part"), "2", x),
            "slice at part takes a part of the tokens, which ranks cannot share");
  EXPECT_EQ(refusal(with_x("  %1: f32[1, 4, 32] = reshape(%x) {shape = [1, 4, 32]} @ flat"), "2", x),
            "reshape at flat splits or merges the axis of tokens, which ranks cannot share");
  EXPECT_EQ(refusal(with_x("  %1: f32[1, 4, 4, 8] = softmax(%x) @ softmax"), "2", x), "no attention reads the tokens");
}

TEST(ContextParallel, ReadsItsArgument) {
  const auto read = [](std::string_view argument) {
    const ContextParallel parallel = ContextParallel::parse(argument);
    return std::pair(parallel.ranks, parallel.ulysses);
  };
  EXPECT_EQ(read("4"), std::pair(4, 0));
  EXPECT_EQ(read("4:ulysses"), std::pair(4, 4));
  EXPECT_EQ(read("4:ring"), std::pair(4, 1));
  EXPECT_EQ(read("6:3x2"), std::pair(6, 3));
  for (const char* wrong : {"0", "65", "x", "4:", "4:2x3", "4:both", "4:x", "4:2x", "4:ring:ring"}) {
    SCOPED_TRACE(wrong);
    EXPECT_THROW(read(wrong), Error);
  }
}

TEST(ContextParallel, SharesFollowEachOther) {
  for (const std::int64_t tokens : {4, 5, 7, 272})
    for (const int ranks : {1, 2, 3, 4}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(first_of_share(tokens, rank, ranks), next);
        next += share_of(tokens, rank, ranks);
        EXPECT_LE(std::abs(share_of(tokens, rank, ranks) - tokens / ranks), 1);
      }
      EXPECT_EQ(next, tokens);
    }
}

}  // namespace
}  // namespace headroom
