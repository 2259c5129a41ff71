#include "text/text_budget.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kWork = std::uint64_t{1} << 18;
constexpr std::uint64_t kWorkPerByte = 256;

}  // namespace

TextBudget::TextBudget(std::string_view source, std::size_t text_bytes)
    : source_(source), text_bytes_(text_bytes), total_(kWork + kWorkPerByte * text_bytes), left_(total_) {}

bool TextBudget::take(std::uint64_t work) noexcept {
  if (work > left_) {
    left_ = 0;
    return false;
  }
  left_ -= work;
  return true;
}

void TextBudget::spend(std::uint64_t work) {
  if (!take(work)) fail_spent();
}

void TextBudget::fail_spent() const {
  fail(
      "{}: its normalizer and pre-tokenizer take more than {} steps on a text of {} bytes; expected less than {} a "
      "byte",
      source_, total_, text_bytes_, kWorkPerByte);
}

}  // namespace headroom
