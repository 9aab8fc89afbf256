#pragma once
/// The channels of a guest, seen from here: unix stream sockets at which qemu listens.

#include <filesystem>

#include "conformance/lab/process.hpp"

namespace rdmawire::lab {

/// Connects to a channel; an error when the guest is gone. One at a time is served; another one waits.
Result<Descriptor> connect_to_guest(const std::filesystem::path& path);

}  // namespace rdmawire::lab
