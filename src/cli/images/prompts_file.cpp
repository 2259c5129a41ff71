#include "cli/images/prompts_file.hpp"

#include <fstream>
#include <utility>

#include "base/error.hpp"
#include "base/text/utf8.hpp"

namespace headroom {

std::vector<std::string> read_prompts(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail("cannot read {}", path);
  std::vector<std::string> prompts;
  bool is_first = true;
  for (std::string line; std::getline(file, line); is_first = false) {
    if (is_first && (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF")))
      fail("{} is in UTF-16: prompts are expected in UTF-8", path);
    if (is_first) line.erase(0, line.size() - without_byte_order_mark(line).size());
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) prompts.push_back(std::move(line));
  }
  if (prompts.empty()) fail("{} holds no prompt: one is expected on each line", path);
  return prompts;
}

}  // namespace headroom
