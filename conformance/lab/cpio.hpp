#pragma once
/// Archives in the kernel's initramfs format ("newc").

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire::lab {

/// Builds an archive. All files are owned by root.
class Cpio {
 public:
  void directory(std::string_view name);
  void file(std::string_view name, std::string_view content, std::uint32_t permissions = 0644);
  /// Returns the complete archive. Archives may be concatenated: the kernel then unpacks all of them, and a later file
  /// replaces an earlier one with the same name.
  [[nodiscard]] std::string finish() &&;

 private:
  void entry(std::string_view name, std::uint32_t mode, std::string_view content);
  std::string out_;
  std::uint32_t number_ = 0x72646d61;  // next inode number. Starts high, to differ from those of other archives
};

}  // namespace rdmawire::lab
