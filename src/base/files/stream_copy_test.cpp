#include "base/files/stream_copy.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace headroom {
namespace {

TEST(StreamCopy, CopiesAllAndNoMoreFromAnyAlignmentToAny) {
  std::vector<unsigned char> source(4096);
  std::iota(source.begin(), source.end(), 0);
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 1024U, 1025U, 3000U})
    for (const std::size_t from : {0U, 1U, 16U, 33U})
      for (const std::size_t to : {0U, 1U, 16U, 63U}) {
        std::vector<unsigned char> target(4096, 0xEE), expected(target);
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(to));
        stream_copy(reinterpret_cast<std::byte*>(target.data()) + to,
                    reinterpret_cast<const std::byte*>(source.data()) + from, bytes);
        finish_streaming();
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
}

}  // namespace
}  // namespace headroom
