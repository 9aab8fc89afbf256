// Fuzzes the parser of manifests, and the comparison of a package with its manifest.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "conformance/report/package.hpp"

namespace {

/// Temporary directory of this process, with one file.
struct Directory {
  std::filesystem::path path;
  Directory() {
    std::string name = std::filesystem::temp_directory_path() / "rdmawire-package-XXXXXX";
    if (!mkdtemp(name.data())) std::abort();
    path = name;
    std::ofstream(path / "report.json") << "{}\n";
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::conformance;
  static const Directory directory;
  std::ofstream(directory.path / manifest_name, std::ios::binary)
      << std::string_view(reinterpret_cast<const char*>(data), size);
  const auto check = verify_package(directory.path);
  if (!check) {
    if (check.error().empty()) std::abort();
    return 0;
  }
  if (text_of(*check).empty() || to_json(*check)["intact"] != check->is_intact()) std::abort();
  return 0;
}
