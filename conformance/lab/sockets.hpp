#pragma once
/// Channels of a guest on the host: Unix stream sockets of qemu.

#include <filesystem>

#include "conformance/lab/process.hpp"

namespace rdmawire::lab {

/// Connects to a channel. Fails if the guest has ended. A channel serves one connection at a time: if it is in use,
/// data is exchanged only after the other connection is closed.
Result<Descriptor> connect_to_guest(const std::filesystem::path& path);

}  // namespace rdmawire::lab
