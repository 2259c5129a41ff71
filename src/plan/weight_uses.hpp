#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// Gives the weights that a program reads their storages: one for each key and form.
class WeightUses {
 public:
  /// Both must outlive it.
  WeightUses(Program& program, const std::vector<int>& producers) : program_(program), producers_(producers) {}

  /// Where a weight lies, dense.
  [[nodiscard]] Place place(ValueId weight) { return place_of(dense(weight)); }
  /// Where a kernel reads it as its operand `input`: packed, if that is what the kernel asks for.
  [[nodiscard]] Place place(ValueId weight, const std::shared_ptr<const PreparedKernel>& prepared, std::size_t input);

 private:
  [[nodiscard]] WeightUse dense(ValueId weight);
  [[nodiscard]] Place place_of(WeightUse use);

  Program& program_;
  const std::vector<int>& producers_;
  std::map<std::pair<std::string, std::string>, int> storages_;  // by key and layout
  std::map<ValueId, std::string> keys_;
};

}  // namespace headroom
