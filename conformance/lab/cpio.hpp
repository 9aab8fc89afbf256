#pragma once
/// Archives as the kernel unpacks them into its first file system ("newc").

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire::lab {

/// An archive, file after file. Everything belongs to root.
class Cpio {
 public:
  void directory(std::string_view name);
  void file(std::string_view name, std::string_view content, std::uint32_t permissions = 0644);
  /// The whole archive, its end marked. Archives can stand behind each other; a later file replaces an earlier one.
  [[nodiscard]] std::string finish() &&;

 private:
  void entry(std::string_view name, std::uint32_t mode, std::string_view content);
  std::string out_;
  std::uint32_t number_ = 0x72646d61;  // inode numbers, apart from those of other archives
};

}  // namespace rdmawire::lab
