#include "captures/io/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "dissectors/output/printable.hpp"

namespace rdmawire::captures {

namespace {

std::string error_text(const std::string& path, int number) {
  return "cannot write " + output::printable(path) + ": " + std::strerror(number);
}

/// Returns the path after following symbolic links, even if their target does not exist yet.
std::filesystem::path target_of(std::filesystem::path path) {
  std::error_code error;
  constexpr int most_links = 40;
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path, error); ++i) {
    const std::filesystem::path to = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / to;
  }
  return path;
}

/// Returns a random name in the directory of `path`.
std::string temporary_name(const std::filesystem::path& path) {
  static constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string name = ".rdmawire-";
  for (int i = 0; i < 12; ++i) name += letters[random() % letters.size()];
  return (path.parent_path() / name).string();
}

}  // namespace

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && S_ISREG(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

tl::expected<void, std::string> check_output(const std::string& output, std::span<const std::string> inputs) {
  for (const std::string& input : inputs)
    if (same_file(output, input))
      return tl::unexpected(output::printable(output) + " is the input file" +
                            (output == input ? "" : " " + output::printable(input)) + "; choose another file");
  return {};
}

struct OutputFile::State {
  std::string path;       ///< path that the caller specified
  std::string target;     ///< path after following symbolic links
  std::string temporary;  ///< temporary name (empty: the file has no name yet)
  int descriptor = -1;
  bool direct = false;  ///< the output is a device or pipe

  ~State() {
    if (descriptor >= 0) ::close(descriptor);
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }
  [[nodiscard]] tl::unexpected<std::string> failed(int number) const {
    return tl::unexpected(error_text(path, number));
  }
  bool open_temporary() {
    const std::filesystem::path parent = std::filesystem::path(target).parent_path();
#ifdef O_TMPFILE
    // commit() needs /proc to give the file a name.
    if (::access("/proc/self/fd", X_OK) == 0)
      descriptor = ::open(parent.empty() ? "." : parent.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor >= 0) return true;
#endif
    temporary = temporary_name(target);
    descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) temporary.clear();
    return descriptor >= 0;
  }
  /// Gives the file a temporary name.
  bool give_name() {
#ifdef O_TMPFILE
    const std::string unnamed = "/proc/self/fd/" + std::to_string(descriptor);
    temporary = temporary_name(target);
    if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
    temporary.clear();
#endif
    return false;
  }
};

OutputFile::OutputFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

int OutputFile::descriptor() const { return state_->descriptor; }
bool OutputFile::discards() const { return !state_->direct; }

tl::expected<OutputFile, std::string> OutputFile::create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    state->direct = true;
    state->descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (state->descriptor < 0) return state->failed(errno);
    return OutputFile(std::move(state));
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) return state->failed(errno);
  state->target = target_of(path).string();
  if (!state->open_temporary()) return state->failed(errno);
  if (exists) {
    if (status.st_uid != ::geteuid() || status.st_gid != ::getegid())
      static_cast<void>(!::fchown(state->descriptor, status.st_uid, status.st_gid));
    static_cast<void>(::fchmod(state->descriptor, status.st_mode & 07777));
  }
  return OutputFile(std::move(state));
}

OutputFile::Result OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(state_->descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return state_->failed(errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

OutputFile::Result OutputFile::commit() {
  State& s = *state_;
  // Closing a duplicate of the descriptor reports errors of network file systems before the file gets its name.
  if (const int duplicate = ::dup(s.descriptor); duplicate >= 0 && ::close(duplicate) != 0) return s.failed(errno);
  if (!s.direct) {
    if (s.temporary.empty() && !s.give_name()) return s.failed(errno);
    if (::rename(s.temporary.c_str(), s.target.c_str()) != 0) return s.failed(errno);
    s.temporary.clear();
  }
  const int descriptor = std::exchange(s.descriptor, -1);
  if (::close(descriptor) != 0 && errno != EINTR) return s.failed(errno);
  return {};
}

OutputFile::Result write_file(const std::string& path, std::string_view bytes) {
  auto file = OutputFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (auto written = file->write(bytes); !written) return written;
  return file->commit();
}

}  // namespace rdmawire::captures
