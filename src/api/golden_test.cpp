#include <gtest/gtest.h>

#include <string>

#include "api/impl.hpp"
#include "base/test_paths.hpp"
#include "io/safetensors.hpp"

namespace headroom::v1 {
namespace {

TensorView view(const HostTensor& tensor) {
  return {.dtype = outer(tensor.dtype()), .shape = outer(tensor.shape()), .bytes = tensor.bytes()};
}

TEST(GoldenTest, ANetworkGivesDiffusersNumbers) {
  const std::string folder = std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance";
  const SafetensorsFile golden = SafetensorsFile::open(folder + "/golden.safetensors");
  const Component network(Device("cpu", 2), folder);
  Shapes shapes;
  for (const auto& [name, entry] : golden.entries())
    if (name != "sample") shapes.emplace(name, outer(entry.shape));
  Session session(network.compile("forward", shapes, "lossless"));
  for (const TensorInfo& input : session.pass().inputs()) {
    const HostTensor tensor = convert(golden.read(input.name), inner(input.dtype));
    session.set_input(input.name, view(tensor));
  }
  session.run();
  EXPECT_LT(relative_l2(session.output("sample"), view(golden.read("sample"))), 5e-6);
}

}  // namespace
}  // namespace headroom::v1
