// Fuzzes Journal::resume() with arbitrary journal files.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "conformance/report/journal.hpp"

namespace {

/// Temporary directory of this process.
struct Directory {
  std::filesystem::path path;
  Directory() {
    std::string name = std::filesystem::temp_directory_path() / "rdmawire-journal-XXXXXX";
    if (!mkdtemp(name.data())) std::abort();
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::conformance;
  static const Directory directory;
  std::ofstream(directory.path / "results.ndjson", std::ios::binary)
      << R"({"format":1,"device":"reference","details":"","seed":1,"repeat":1,"setup":{},"cases":[]})" << '\n'
      << std::string_view(reinterpret_cast<const char*>(data), size);
  auto first = Journal::resume(directory.path, {"reference", "", 1, 1});
  if (!first) return 0;
  // A journal that was read can be read again, because an incomplete last line is removed.
  const auto again = Journal::resume(directory.path, {"reference", "", 1, 1});
  if (!again || again->results().size() != first->results().size()) std::abort();
  return 0;
}
