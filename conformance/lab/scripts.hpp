#pragma once
/// The scripts in image/ that build the guest's image and start the guest.

#include <string_view>

namespace rdmawire::lab {

extern const std::string_view build_script;  ///< for bash on the host
extern const std::string_view init_script;   ///< for busybox sh, as init of the guest

}  // namespace rdmawire::lab
