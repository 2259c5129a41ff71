#include "measure/result_folder.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "base/printable.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> list_json_files(const fs::path& folder, std::vector<std::string>& left_out) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // of a file that has gone meanwhile
    if (entry->is_regular_file(ignored) && entry->path().extension() == ".json") paths.push_back(entry->path());
  }
  if (error) left_out.push_back(printable_name(fmt::format("the rest of {}: {}", folder.string(), error.message())));
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

std::vector<NamedResults> read_result_folder(const fs::path& folder, std::vector<std::string>& left_out) {
  if (!fs::is_directory(folder)) fail("{} is not a folder", folder.string());
  const std::size_t left_out_before = left_out.size();
  std::vector<NamedResults> files;
  for (const fs::path& path : list_json_files(folder, left_out)) try {
      files.emplace_back(path.string(), read_results(path));
    } catch (const Error& error) {
      left_out.push_back(printable_name(error.what()));  // one line, whatever the file is called
    }
  if (files.empty())
    fail("{} holds no result file (*.json){}", folder.string(),
         left_out.size() == left_out_before
             ? ""
             : fmt::format("; of what was left out the first is: {}", left_out[left_out_before]));
  return files;
}

}  // namespace headroom
