#pragma once
/// The files of conformance/expected, as they stand there.

#include <span>
#include <string_view>

namespace rdmawire::conformance {

struct ExpectedFile {
  std::string_view name;  ///< of the device: "rxe-6.1"
  std::string_view text;  ///< JSON
};
extern const std::span<const ExpectedFile> expected_files;

}  // namespace rdmawire::conformance
