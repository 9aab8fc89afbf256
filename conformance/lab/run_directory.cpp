#include "conformance/lab/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace rdmawire::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_name = 24;
// Paths of Unix sockets are limited to 107 bytes. The longest ones are FOLDER/NAME/1/run.0.control.out.
constexpr std::size_t longest_folder = 107 - longest_name - 30;

// Locks the directory itself, without a lock file. Returns an invalid descriptor on failure.
Descriptor lock(const fs::path& path, bool wait) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) return {};
  int result;
  do result = ::flock(descriptor.get(), LOCK_EX | (wait ? 0 : LOCK_NB));
  while (result != 0 && errno == EINTR);
  return result == 0 ? std::move(descriptor) : Descriptor();
}

bool is_lab_name(const std::string& name) {
  if (name.empty() || name.size() > longest_name || name[0] == '.' || name[0] == '-') return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
          c == '.'))
      return false;
  return true;
}

// Returns whether a lab is running in the directory `path`. Removes the directory if not. The caller must hold the lock
// of runtime_folder().
bool lives_or_swept(const fs::path& path) {
  const Descriptor held = lock(path, false);
  std::error_code error;
  if (!held) return fs::exists(path, error);
  fs::remove_all(path, error);
  return false;
}

}  // namespace

Result<fs::path> runtime_folder() {
  fs::path base;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime == '/')
    base = fs::path(runtime) / "rdmawire";
  if (base.empty() || ::access(base.parent_path().c_str(), W_OK) != 0 ||
      (base / "lab").string().size() > longest_folder)
    base = "/tmp/rdmawire-" + std::to_string(::getuid());
  const fs::path folder = base / "lab";
  for (const fs::path& path : {base, folder}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return system_failure("making " + path.string());
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) return system_failure("check " + path.string());
    if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid() || (found.st_mode & 077) != 0)
      return failure(LabError::Kind::system,
                     path.string() + " must be a directory owned by this user with mode 700; remove it");
  }
  return folder;
}

Result<RunDirectory> RunDirectory::create(const std::string& name) {
  if (!name.empty() && !is_lab_name(name))
    return failure(LabError::Kind::usage, "\"" + name + "\" is not a valid lab name: up to " +
                                              std::to_string(longest_name) + " letters, digits, '-', '_' and '.'");
  auto folder = runtime_folder();
  if (!folder) return tl::unexpected(folder.error());
  const Descriptor whole = lock(*folder, true);
  if (!whole) return system_failure("locking " + folder->string());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(*folder, error)) lives_or_swept(entry.path());

  RunDirectory made;
  made.name_ = name.empty() ? "lab" : name;
  for (int number = 2; fs::exists(*folder / made.name_, error); ++number) {
    if (!name.empty()) return failure(LabError::Kind::busy, "a lab named " + name + " is running; use another --name");
    made.name_ = "lab" + std::to_string(number);
  }
  const fs::path path = *folder / made.name_;
  if (::mkdir(path.c_str(), 0700) != 0) return system_failure("making " + path.string());
  made.path_ = path;
  made.lock_ = lock(path, false);
  if (!made.lock_) return system_failure("locking " + path.string());
  return made;
}

Result<std::vector<RunDirectory::Living>> RunDirectory::living() {
  auto folder = runtime_folder();
  if (!folder) return tl::unexpected(folder.error());
  const Descriptor whole = lock(*folder, true);
  if (!whole) return system_failure("locking " + folder->string());
  std::vector<Living> labs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(*folder, error))
    if (lives_or_swept(entry.path())) labs.push_back({entry.path().filename(), entry.path()});
  std::sort(labs.begin(), labs.end(), [](const Living& a, const Living& b) { return a.name < b.name; });
  return labs;
}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  if (this != &other) {
    remove();
    name_ = std::move(other.name_);
    path_ = std::exchange(other.path_, {});
    lock_ = std::move(other.lock_);
  }
  return *this;
}

void RunDirectory::remove() {
  if (path_.empty()) return;
  std::error_code error;
  fs::remove_all(path_, error);
  path_.clear();
  lock_.reset();
}

}  // namespace rdmawire::lab
