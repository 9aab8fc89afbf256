#pragma once
/// The embedded files of conformance/expected.

#include <span>
#include <string_view>

namespace rdmawire::conformance {

struct ExpectedFile {
  std::string_view name;  ///< name of the device: "rxe-6.1"
  std::string_view text;  ///< JSON
};
extern const std::span<const ExpectedFile> expected_files;

}  // namespace rdmawire::conformance
