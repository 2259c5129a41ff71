#include "run/model_folders.hpp"

#include <algorithm>
#include <set>
#include <system_error>

#include "base/error.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLevels = 8;
constexpr std::size_t kMostFolders = 20'000;

class ModelFolderSearch {
 public:
  explicit ModelFolderSearch(const fs::path& root) : root_(root) { look_in(root, 0); }

  [[nodiscard]] std::vector<fs::path> take() && {
    std::ranges::sort(found_);
    return std::move(found_);
  }

 private:
  void look_in(const fs::path& folder, int level) {
    std::error_code unknown;
    const fs::path real = fs::canonical(folder, unknown);
    if (unknown || !seen_.insert(real).second) return;
    if (seen_.size() > kMostFolders)
      fail("{} has more than {} folders below it: give one that holds less", root_.native(), kMostFolders);
    bool is_model = false;
    std::vector<fs::path> below;
    for (fs::directory_iterator entry(folder, unknown), end; !unknown && entry != end; entry.increment(unknown)) {
      const fs::path name = entry->path().filename();
      is_model = is_model || name == "config.json" || name == "model_index.json" || name == "modular_model_index.json";
      std::error_code ignored;  // of a link to itself
      if (!name.native().starts_with('.') && entry->is_directory(ignored)) below.push_back(entry->path());
    }
    if (is_model) found_.push_back(folder);
    std::ranges::sort(below);
    if (level < kMostLevels)
      for (const fs::path& each : below) look_in(each, level + 1);
  }

  const fs::path& root_;
  std::set<fs::path> seen_;
  std::vector<fs::path> found_;
};

}  // namespace

std::vector<fs::path> find_model_folders(const fs::path& folder) { return ModelFolderSearch(folder).take(); }

}  // namespace headroom
