#include "measure/quality/pass_error.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "pipelines/streams/stream_pixels.hpp"

namespace headroom {

std::vector<HostTensor> pass_outputs(const ForwardPass& pass, const Session& session) {
  std::vector<HostTensor> outputs;
  for (const Output& output : session.program().graph.outputs())
    if (!pass.is_stream_frame || output.name == kShownPixels) outputs.push_back(session.output(output.name));
  return outputs;
}

double pass_error(std::span<const HostTensor> outputs, std::span<const HostTensor> expected) {
  HR_CHECK_EQ(outputs.size(), expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double error = relative_l2(outputs[i], expected[i]);
    if (std::isnan(error)) return error;  // a comparison would ignore it
    largest = std::max(largest, error);
  }
  return largest;
}

}  // namespace headroom
