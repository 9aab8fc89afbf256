#include "cli/pid_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>

namespace rdmawire::cli {
namespace {

constexpr std::size_t most_text = 64;  // bytes of a file with a process ID

bool is_at(int file, const std::string& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

/// Returns why the file must not be replaced. Empty: it may be.
std::string owner_of(int file, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return fmt::format("cannot read {}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fmt::format("--pid-file: {} is not a regular file", path);
  std::array<char, most_text> text;
  const ssize_t bytes = ::pread(file, text.data(), text.size(), 0);
  if (bytes < 0) return fmt::format("cannot read {}: {}", path, std::strerror(errno));
  std::string_view number(text.data(), static_cast<std::size_t>(bytes));
  while (!number.empty() && (number.back() == '\n' || number.back() == ' ')) number.remove_suffix(1);
  if (number.empty()) return {};
  pid_t process = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), process);
  if (error != std::errc() || end != number.data() + number.size() || process <= 0)
    return fmt::format("--pid-file: {} contains something other than a process ID; choose another file", path);
  if (process != ::getpid() && (::kill(process, 0) == 0 || errno == EPERM))
    return fmt::format("--pid-file: {} belongs to process {}, which is running; choose another file, or remove it",
                       path, process);
  return {};
}

}  // namespace

tl::expected<PidFile, std::string> PidFile::create(const std::string& path) {
  const auto failed = [&] { return tl::unexpected(fmt::format("cannot write {}: {}", path, std::strerror(errno))); };
  constexpr int most_attempts = 100;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    constexpr mode_t readable = 0644;
    replay::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, readable));
    if (!file) return failed();
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return failed();
      return tl::unexpected(fmt::format("--pid-file: {} belongs to another running replay; choose another file", path));
    }
    // The previous owner may have removed the file in the meantime.
    if (!is_at(file.get(), path)) continue;
    if (std::string why = owner_of(file.get(), path); !why.empty()) return tl::unexpected(std::move(why));
    const std::string text = std::to_string(::getpid()) + "\n";
    if (::ftruncate(file.get(), 0) != 0 ||
        ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      return failed();
    PidFile made;
    made.path_ = path;
    made.file_ = std::move(file);
    return made;
  }
  return tl::unexpected(fmt::format("cannot write {}: other processes remove it", path));
}

PidFile::~PidFile() {
  if (file_ && is_at(file_.get(), path_)) ::unlink(path_.c_str());
}

}  // namespace rdmawire::cli
