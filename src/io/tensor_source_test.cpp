#include "io/tensor_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/gguf.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HostTensor counting(Shape shape) {
  HostTensor tensor(DType::kF32, shape);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.at(i));
  return values;
}

class RenamedTensors : public testing::Test {
 protected:
  RenamedTensors() {
    write_safetensors(path_, {{"stored", counting({3, 2})}});
    file_ = open_safetensors(path_);
  }

  /// A source with one tensor of the file's.
  [[nodiscard]] std::shared_ptr<TensorSource> renamed(Shape shape, std::vector<TensorRows> rows,
                                                      bool is_transposed = false) const {
    return rename_tensors(file_, {{.tensor = {"ours", DType::kF32, shape},
                                   .stored = {"stored", DType::kF32, {3, 2}},
                                   .rows = std::move(rows),
                                   .is_transposed = is_transposed}});
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "a.safetensors";
  std::shared_ptr<TensorSource> file_;
};

TEST_F(RenamedTensors, OfOneRangeAreViewsOfTheFile) {
  const std::shared_ptr<TensorSource> source = renamed({2, 2}, {{1, 2}});
  const TensorSpec ours = source->tensors().front();
  EXPECT_EQ(ours, (TensorSpec{"ours", DType::kF32, {2, 2}}));
  EXPECT_THAT(source->files(), ElementsAre(path_));
  EXPECT_THAT(values_of(source->read(ours)), ElementsAre(2, 3, 4, 5));
  const auto whole = file_->bytes(file_->tensors().front());
  EXPECT_EQ(source->bytes(ours).data(), whole.data() + 2 * sizeof(float)) << "no copy";
  source->release(ours);
  EXPECT_THAT(values_of(source->read(ours)), ElementsAre(2, 3, 4, 5));
}

TEST_F(RenamedTensors, OfSeveralRangesAndTransposedAreCopied) {
  const auto both = [](const std::shared_ptr<TensorSource>& source) {
    const TensorSpec ours = source->tensors().front();
    const HostTensor read = source->read(ours);
    EXPECT_TRUE(std::ranges::equal(source->bytes(ours), read.bytes()));
    source->release(ours);
    return values_of(read);
  };
  EXPECT_THAT(both(renamed({3, 2}, {{2, 1}, {0, 2}})), ElementsAre(4, 5, 0, 1, 2, 3));
  EXPECT_THAT(both(renamed({2, 3}, {{0, 3}}, /*is_transposed=*/true)), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST_F(RenamedTensors, OutsideOfTheStoredOneAreAMistake) {
  EXPECT_THROW(static_cast<void>(renamed({2, 2}, {{2, 2}})), std::logic_error);
  EXPECT_THROW(static_cast<void>(renamed({1, 2}, {{0, 2}})), std::logic_error);
}

/// Rows whose blocks are their own are unpacked by themselves, and others with the whole tensor.
TEST(GgufRows, AreThoseOfTheUnpackedTensor) {
  const std::shared_ptr<TensorSource> source = open_gguf(source_dir(kSourceDir) / "tests/goldens/gguf/blocks.gguf");
  int tensors = 0;
  for (const TensorSpec& tensor : source->tensors()) {
    if (tensor.shape.rank() < 1 || tensor.shape[0] < 2) continue;
    ++tensors;
    const std::vector<double> whole = values_of(source->read(tensor));
    const auto row = static_cast<std::ptrdiff_t>(whole.size()) / tensor.shape[0];
    const HostTensor last = source->read_rows(tensor, {tensor.shape[0] - 1, 1});
    EXPECT_THAT(values_of(last), testing::ElementsAreArray(whole.end() - row, whole.end())) << tensor.name;
    EXPECT_EQ(source->is_narrow(tensor), tensor.name.find("F32") == std::string::npos) << tensor.name;
  }
  EXPECT_GT(tensors, 10);
}

TEST(WeightsFile, IsNoPickle) {
  const TempFolder folder;
  for (const std::string& begin : {std::string("PK\3\4"), std::string("\x80\x02}q")}) {
    write_file_atomically(folder / "model.ckpt", begin + std::string(60, ' '));
    EXPECT_THAT(error_of([&] { static_cast<void>(open_weights_file(folder / "model.ckpt")); }),
                HasSubstr("is a pickle of PyTorch, which may run any program when it is opened"));
  }
}

}  // namespace
}  // namespace headroom
