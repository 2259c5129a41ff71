#include "base/failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/out_of_memory.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Failure, IsOneSentenceOfWhatTheUserCanChange) {
  EXPECT_EQ(sentence_of(Error("x.json has no \"steps\"")), "x.json has no \"steps\"");
  EXPECT_EQ(sentence_of(OutOfMemory("it does not fit")), "it does not fit");
  EXPECT_THAT(sentence_of(std::bad_alloc()), StartsWith("out of memory"));
  EXPECT_THAT(sentence_of(std::bad_array_new_length()), StartsWith("out of memory"));
  EXPECT_THAT(sentence_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "thread")),
              StartsWith("cannot start another thread"));
  const std::error_code loop = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  EXPECT_THAT(sentence_of(std::filesystem::filesystem_error("status", "/models/a", loop)),
              StartsWith("cannot use /models/a: "));
}

TEST(Failure, OfTheProgramItselfIsSaidToBeOne) {
  EXPECT_EQ(sentence_of(std::logic_error("x == 1")), "internal error: x == 1");
  EXPECT_THAT(sentence_of(std::system_error(std::make_error_code(std::errc::invalid_argument), "mutex")),
              StartsWith("internal error: "));
  EXPECT_THAT(sentence_of(std::make_exception_ptr(std::runtime_error("?"))), HasSubstr("internal error"));
}

}  // namespace
}  // namespace headroom
