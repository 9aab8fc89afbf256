#pragma once
/// The scripts that build the guest's image and start the guest, as they stand in image/.

#include <string_view>

namespace rdmawire::lab {

extern const std::string_view build_script;  ///< bash, on this machine
extern const std::string_view init_script;   ///< busybox sh, the guest's first program

}  // namespace rdmawire::lab
