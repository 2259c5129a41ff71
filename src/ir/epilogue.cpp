#include "ir/epilogue.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "ir/activation.hpp"
#include "ir/op.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostOperands = 8;
constexpr std::size_t kMostTerms = 64;
constexpr int kMostDepth = 32;

/// Reads the text of an epilogue: expression = "sum" | "e" number | op "(" expression {"," expression} ")".
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<Epilogue::Term> read() {
    read_expression();
    if (!rest().empty()) refuse("more after its end");
    return std::move(terms_);
  }

 private:
  void read_expression() {
    if (terms_.size() >= kMostTerms) refuse(fmt::format("more than {} terms", kMostTerms));
    if (++depth_ > kMostDepth) refuse(fmt::format("ops nested more than {} deep", kMostDepth));
    const std::string_view word = read_word();
    if (word == "sum") {
      terms_.push_back({});
    } else if (word.size() == 2 && word[0] == 'e' && word[1] >= '0' &&
               static_cast<std::size_t>(word[1] - '0') < kMostOperands) {
      terms_.push_back({.kind = Epilogue::Term::kOperand, .operand = static_cast<std::uint8_t>(word[1] - '0')});
    } else if (const std::optional<Op> op = parse_op(word); op && Epilogue::may_contain(*op)) {
      const std::size_t arity = arity_in_epilogue(*op);
      for (std::size_t i = 0; i < arity; ++i) {
        expect(i == 0 ? '(' : ',');
        read_expression();
      }
      expect(')');
      terms_.push_back({.kind = Epilogue::Term::kOp, .op = *op});
    } else {
      refuse(fmt::format("\"{}\", which is neither sum, e0 to e{}, nor an elementwise op without attributes", word,
                         kMostOperands - 1));
    }
    --depth_;
  }

  std::string_view rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }
  std::string_view read_word() {
    const std::string_view from = rest();
    const auto end =
        std::ranges::find_if(from, [](char c) { return c != '_' && std::isalnum(static_cast<unsigned char>(c)) == 0; });
    const auto length = static_cast<std::size_t>(end - from.begin());
    at_ += length;
    return from.substr(0, length);
  }
  void expect(char wanted) {
    if (!rest().starts_with(wanted)) refuse(fmt::format("no '{}' at \"{}\"", wanted, rest()));
    ++at_;
  }
  [[noreturn]] void refuse(const std::string& what) const { fail("the epilogue \"{}\" has {}", text_, what); }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<Epilogue::Term> terms_;
};

}  // namespace

std::size_t arity_in_epilogue(Op op) { return schema_of(op).operands.least(); }

bool Epilogue::may_contain(Op op) {
  switch (op) {
#define HR_ANY(...)
#define HR_UNARY(enumerator, ...) case Op::enumerator:
#define HR_BINARY HR_UNARY
#define HR_REAL_BINARY HR_UNARY
#include "ir/elementwise.def"
    return true;
    default:
      return false;
  }
}

Epilogue::Epilogue(Activation activation) {
  if (activation != Activation::kNone) *this = then(op_of(activation));
}

Epilogue Epilogue::parse(std::string_view text) {
  Epilogue made;
  made.terms_ = Reader(text).read();
  const std::size_t count = made.operand_count();
  for (std::size_t i = 0; i < count; ++i) {
    const auto uses = [&](const Term& term) { return term.kind == Term::kOperand && term.operand == i; };
    if (std::ranges::none_of(made.terms_, uses)) fail("the epilogue \"{}\" leaves out e{}", text, i);
  }
  if (std::ranges::count(made.terms_, Term::kSum, &Term::kind) == 0) fail("the epilogue \"{}\" has no sum", text);
  if (made.terms_.size() == 1) made.terms_.clear();
  return made;
}

Epilogue Epilogue::then(Op op, std::size_t position) const {
  const std::size_t arity = arity_in_epilogue(op);
  HR_CHECK(may_contain(op) && position < arity);
  Epilogue made;
  std::size_t next = operand_count();
  for (std::size_t i = 0; i < arity; ++i) {
    if (i != position) {
      made.terms_.push_back({.kind = Term::kOperand, .operand = static_cast<std::uint8_t>(next++)});
    } else if (is_empty()) {
      made.terms_.push_back({});
    } else {
      made.terms_.insert(made.terms_.end(), terms_.begin(), terms_.end());
    }
  }
  HR_CHECK_LE(next, kMostOperands);
  made.terms_.push_back({.kind = Term::kOp, .op = op});
  return made;
}

std::size_t Epilogue::operand_count() const noexcept {
  std::size_t count = 0;
  for (const Term& term : terms_)
    if (term.kind == Term::kOperand) count = std::max<std::size_t>(count, term.operand + 1U);
  return count;
}

std::string Epilogue::to_text() const {
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < operand_count(); ++i) operands.push_back(fmt::format("e{}", i));
  return evaluate(std::string("sum"), std::span<const std::string>(operands),
                  [](Op op, std::span<const std::string> args) {
                    return fmt::format("{}({})", name_of(op), fmt::join(args, ", "));
                  });
}

std::optional<EpilogueForm> form_of(const Epilogue& epilogue) {
  const std::span<const Epilogue::Term> terms = epilogue.terms();
  Activation activation = Activation::kNone;
  if (!terms.empty() && terms.back().kind == Epilogue::Term::kOp)
    activation = activation_for(terms.back().op).value_or(Activation::kNone);
  for (const Epilogue& sum : {Epilogue(), Epilogue().then(Op::kAdd, 0), Epilogue().then(Op::kAdd, 1)})
    if (epilogue == (activation == Activation::kNone ? sum : sum.then(op_of(activation))))
      return EpilogueForm{.activation = activation, .adds_operand = sum.operand_count() > 0};
  return std::nullopt;
}

}  // namespace headroom
