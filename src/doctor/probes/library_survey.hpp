#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The libraries that a program opens at run time: which files the loader takes, and which other ones there are.
namespace headroom::doctor {

/// The form of a library's own version function.
enum class VersionForm : std::uint8_t {
  kReturned,       ///< size_t f(): 91900 is 9.19.0
  kMajorAndMinor,  ///< status f(int* major, int* minor)
  kStored,         ///< status f(uint32_t* version): 130000 is 13.0.0
};

/// A version as one number, ordered: 91900 is 9.19.0.
using PackedVersion = std::int64_t;
[[nodiscard]] std::string version_text(PackedVersion version);

struct LibraryNeed {
  std::string name;    ///< "cuDNN"
  std::string soname;  ///< "libcudnn.so.9"
  std::string version_function;
  VersionForm form = VersionForm::kReturned;
  PackedVersion least = 0;   ///< oldest version that does everything
  std::string used_for;      ///< "attention and convolutions on GPUs"
  bool is_essential = true;  ///< work runs without it no faster than without a GPU's fast kernels, or not at all
  std::string package;       ///< of PyPI: "nvidia-cudnn-cu13"
};

/// A file that the loader would take, or would have taken had it searched there first.
struct LibraryCopy {
  std::filesystem::path path;            ///< as the loader names it
  std::filesystem::path file;            ///< with links resolved
  std::optional<PackedVersion> version;  ///< by its own function
  std::string found_by;                  ///< "LD_LIBRARY_PATH", "the program's RUNPATH", "the system's folders"
};

struct LibraryFacts {
  LibraryNeed need;
  std::optional<LibraryCopy> taken;  ///< what the loader takes
  std::vector<LibraryCopy> others;   ///< other files of this soname in the loader's folders
  std::string obstacle;              ///< why the loader takes none, in its words
};

/// Opens the library as the program would, and looks for others where the loader searches: the program's RPATH or
/// RUNPATH, LD_LIBRARY_PATH, the folders of /etc/ld.so.conf and those of the system.
[[nodiscard]] LibraryFacts survey_library(const LibraryNeed& need);

/// The file of a loaded library of this name, or ""; as the loader names it.
[[nodiscard]] std::string path_of_loaded(const std::string& name);
/// The file that the function or object at `address` belongs to (dladdr), or "".
[[nodiscard]] std::string file_of_address(const void* address);

}  // namespace headroom::doctor
