#include "conformance/lab/cpio.hpp"

#include <fmt/format.h>

namespace rdmawire::lab {

void Cpio::directory(std::string_view name) { entry(name, 0040755, {}); }

void Cpio::file(std::string_view name, std::string_view content, std::uint32_t permissions) {
  entry(name, 0100000 | permissions, content);
}

std::string Cpio::finish() && {
  number_ = 0;
  entry("TRAILER!!!", 0, {});
  out_.append((512 - out_.size() % 512) % 512, '\0');
  return std::move(out_);
}

void Cpio::entry(std::string_view name, std::uint32_t mode, std::string_view content) {
  // inode, mode, uid, gid, links, time, size, device, special device, name length, checksum
  out_ += fmt::format("070701{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}", number_++,
                      mode, 0, 0, 1, 0, content.size(), 0, 0, 0, 0, name.size() + 1, 0);
  out_ += name;
  out_ += '\0';
  out_.append((4 - out_.size() % 4) % 4, '\0');
  out_ += content;
  out_.append((4 - out_.size() % 4) % 4, '\0');
}

}  // namespace rdmawire::lab
