#include "pipelines/streams/stream_pixels.hpp"

#include <utility>
#include <vector>

namespace headroom {
namespace {

constexpr double kHalfRange = 127.5;  // of a byte
constexpr double kCosineEps = 1e-8;   // a lower bound of the product of norms: black frames count as equal

constexpr const char* kRate = "filter_rate";              // 1 / (1 - threshold)
constexpr const char* kMostInRow = "filter_most_in_row";  // 0 skips none
constexpr const char* kSeed = "filter_seed";
constexpr const char* kLastPixels = "filter_last_pixels";  // of the last computed frame
constexpr const char* kLastShown = "filter_last_shown";
constexpr const char* kInRow = "filter_in_row";  // frames skipped since then
constexpr const char* kCount = "filter_count";   // frames so far

ValueId to_range(Builder& b, ValueId pixels) {
  return b.add_scalar(b.mul_scalar(b.cast(pixels, DType::kF32), 1 / kHalfRange), -1);
}

ValueId dot(Builder& b, ValueId x, ValueId y) { return b.sum(b.mul(x, y), {0, 1, 2}); }

/// Whether a frame is computed, a bool scalar.
struct Decision {
  ValueId compute, last_shown, in_row, last_pixels;
};

Decision decide(Builder& b, Graph& graph, ValueId pixels) {
  const TensorType of_pixels{.dtype = DType::kU8, .shape = b.shape(pixels)};
  const TensorType number{.dtype = DType::kI32, .shape = {}};
  const ValueId rate = graph.add_input(kRate, TensorType{.shape = {}});
  const ValueId most = graph.add_input(kMostInRow, number);
  const ValueId seed = graph.add_input(kSeed, TensorType{.dtype = DType::kI64, .shape = {1}});
  Decision decision{.compute = kNoValue,
                    .last_shown = graph.add_state(kLastShown, of_pixels),
                    .in_row = graph.add_state(kInRow, number),
                    .last_pixels = graph.add_state(kLastPixels, of_pixels)};
  const ValueId count = graph.add_state(kCount, number);
  b.set_next(count, b.add_scalar(count, 1));

  const ValueId now = to_range(b, pixels), last = to_range(b, decision.last_pixels);  // [h, w, 3]
  const ValueId norms = b.sqrt(b.mul(dot(b, now, now), dot(b, last, last)));          // []
  const ValueId floor = b.constant({kCosineEps}, {});
  const ValueId cosine = b.div(dot(b, now, last), b.max(norms, floor));
  const ValueId distance = b.add_scalar(b.neg(cosine), 1);
  const ValueId probability = b.add_scalar(b.neg(b.mul(distance, rate)), 1);  // of skipping the frame
  const ValueId draw = b.reshape(b.random(seed, count, {}, Distribution::kUniform), {});
  const ValueId yes = b.constant({1}, {}, DType::kBool);
  decision.compute = b.where(b.less(decision.in_row, most), b.less(probability, draw), yes);
  return decision;
}

}  // namespace

ValueId build_image_of_pixels(Builder& b, ValueId pixels) {
  const Shape shape = b.shape(pixels);                                                    // [h, w, 3]
  const ValueId one = b.reshape(to_range(b, pixels), {1, shape[0], shape[1], shape[2]});  // [1, h, w, 3]
  return b.transpose(one, {0, 3, 1, 2});
}

ValueId build_pixels_of_image(Builder& b, ValueId image) {
  const Shape shape = b.shape(image);  // [1, 3, h, w]
  const ValueId bytes = b.mul_scalar(b.add_scalar(b.clamp(image, -1, 1), 1), kHalfRange);
  const ValueId rows = b.reshape(b.transpose(bytes, {0, 2, 3, 1}), {shape[2], shape[3], shape[1]});  // [h, w, 3]
  return b.cast(rows, DType::kU8);
}

Graph build_stream_frame(std::string name, const ImageSize& size, bool is_filtered, const FrameBody& body) {
  Graph graph(std::move(name));
  Builder b(graph);
  const ValueId pixels =
      graph.add_input(kFramePixels, TensorType{.dtype = DType::kU8, .shape = {size.height, size.width, 3}});
  const auto show = [&] { return build_pixels_of_image(b, body(b, build_image_of_pixels(b, pixels))); };
  if (!is_filtered) {
    graph.add_output(kShownPixels, show());
    return graph;
  }
  const Decision decision = decide(b, graph, pixels);
  const ValueId repeated = b.equal(decision.compute, b.constant({0}, {}, DType::kBool));
  const ValueId none = b.constant({0}, {}, DType::kI32);
  b.set_next(decision.in_row, b.where(decision.compute, none, b.add_scalar(decision.in_row, 1)));
  const std::vector<ValueId> results = b.run_if(decision.compute,
                                                [&] {
                                                  const ValueId shown = show();
                                                  b.set_next(decision.last_shown, shown);
                                                  b.set_next(decision.last_pixels, pixels);
                                                  return std::vector<ValueId>{shown};
                                                },
                                                {decision.last_shown});
  graph.add_output(kShownPixels, results[0]);
  graph.add_output(kIsRepeated, repeated);
  return graph;
}

void set_similarity_filter(Session& session, const SimilarityFilter& filter) {
  if (session.program().graph.find(ValueKind::kInput, kRate) == kNoValue) return;
  HostTensor rate(DType::kF32, {}), most(DType::kI32, {}), seed(DType::kI64, {1});
  rate.set(0, filter.threshold > 0 ? 1 / (1 - filter.threshold) : 1);
  most.set(0, filter.threshold > 0 ? static_cast<double>(filter.most_in_row) : 0);
  seed.as<std::int64_t>()[0] = static_cast<std::int64_t>(filter.seed);
  session.set_input(kRate, rate);
  session.set_input(kMostInRow, most);
  session.set_input(kSeed, seed);
}

void start_similarity_filter(Session& session) {
  const Graph& graph = session.program().graph;
  const ValueId last = graph.find(ValueKind::kState, kLastPixels);
  if (last == kNoValue) return;
  const HostTensor black(DType::kU8, graph.type(last).shape);
  session.set_state(kLastPixels, black);
  session.set_state(kLastShown, black);
  HostTensor in_row(DType::kI32, {}), count(DType::kI32, {});
  in_row.set(0, 1e9);  // above any limit
  session.set_state(kInRow, in_row);
  session.set_state(kCount, count);
}

}  // namespace headroom
