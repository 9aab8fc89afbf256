#include "conformance/lab/image.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "conformance/lab/process.hpp"
#include "conformance/lab/run_directory.hpp"
#include "conformance/lab/scripts.hpp"

namespace rdmawire::lab {
namespace {

namespace fs = std::filesystem;
using Kind = LabError::Kind;
using Clock = std::chrono::steady_clock;

constexpr std::string_view unfinished = ".building-";

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

// FNV-1a hash of the parts, truncated to 40 bits. Used in names of cached layers.
std::string fingerprint(std::initializer_list<std::string_view> parts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::string_view part : parts)
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:010x}", hash & 0xffffffffff);
}

// Returns the distribution of the packages, for example "debian12".
std::string distribution() {
  std::ifstream in("/etc/os-release");
  std::string id = "unknown", version;
  for (std::string line; std::getline(in, line);) {
    line.erase(std::remove(line.begin(), line.end(), '"'), line.end());
    if (line.rfind("ID=", 0) == 0) id = line.substr(3);
    if (line.rfind("VERSION_ID=", 0) == 0) version = line.substr(11);
  }
  return id + version;
}

// Opens the cache. Its files are booted and executed, so it must belong to this user.
Result<Descriptor> open_cache(const fs::path& cache) {
  std::error_code error;
  fs::create_directories(cache, error);
  if (error) {
    errno = error.value();
    return system_failure("create the lab's cache " + cache.string());
  }
  Descriptor folder(::open(cache.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return system_failure("open the lab's cache " + cache.string());
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0) return system_failure("check the lab's cache " + cache.string());
  if (found.st_uid != ::getuid() || ((found.st_mode & 022) != 0 && ::fchmod(folder.get(), found.st_mode & 0755) != 0))
    return failure(Kind::system,
                   "the lab's cache " + cache.string() +
                       " must belong to this user; remove it, or set XDG_CACHE_HOME to another directory");
  return folder;
}

// Locks the cache. Waits for other labs.
Result<Descriptor> lock_cache(const fs::path& cache, StopDescriptor stop, const Progress& progress) {
  auto opened = open_cache(cache);
  if (!opened) return opened;
  Descriptor folder = std::move(*opened);
  std::error_code error;
  bool announced = false;
  while (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_failure("lock the lab's cache " + cache.string());
    if (!announced && progress) progress("waiting for another lab that builds the image");
    announced = true;
    if (stopped_within(stop, std::chrono::milliseconds(100))) return failure(Kind::stopped, "stopped");
  }
  // Remove leftovers of killed builds.
  for (const auto& entry : fs::directory_iterator(cache, error))
    if (entry.path().filename().string().rfind(unfinished, 0) == 0) fs::remove_all(entry.path(), error);
  return folder;
}

// A directory that is removed unless it is renamed to its final name.
class Unfinished {
 public:
  static Result<Unfinished> make(const fs::path& cache) {
    std::string name = (cache / (std::string(unfinished) + "XXXXXX")).string();
    if (!::mkdtemp(name.data())) return system_failure("making " + name);
    Unfinished made;
    made.path_ = name;
    return made;
  }
  Unfinished() = default;
  Unfinished(Unfinished&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Unfinished& operator=(Unfinished&&) = delete;
  ~Unfinished() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  Result<void> finish(const fs::path& as) {
    std::error_code error;
    fs::remove_all(as, error);
    fs::rename(path_, as, error);
    if (error) {
      errno = error.value();
      return system_failure("renaming " + path_.string() + " to " + as.string());
    }
    path_.clear();
    return {};
  }

 private:
  fs::path path_;
};

class Builder {
 public:
  explicit Builder(const ImageOptions& options) : options_(options) {}

  Result<Image> provide() {
    const auto began = Clock::now();
    const bool own = options_.kernel != "debian" && options_.kernel != "newest";
    if (own && ::access(options_.kernel.c_str(), R_OK) != 0)
      return failure(Kind::usage, "kernel " + options_.kernel + ": " + std::strerror(errno) +
                                      "; expected debian, newest, or the path of a bzImage or vmlinux");
    std::error_code error;
    if (own && (options_.modules.empty() || !fs::is_directory(options_.modules, error)))
      return failure(Kind::usage, "kernel " + options_.kernel +
                                      " requires --modules DIR: its lib/modules/RELEASE, created by modules_install");
    if (auto cache = open_cache(options_.cache); !cache) return tl::unexpected(cache.error());
    auto tools = layer("tools-" + distribution(), {"tools"});
    if (!tools) return tl::unexpected(tools.error());
    busybox_ = *tools / "root/bin/busybox";
    image_.root = *tools / "root";
    image_.layers.push_back(*tools / "tools.cpio");

    fs::path kernel;
    if (own) {
      auto made = own_kernel();
      if (!made) return tl::unexpected(made.error());
      kernel = *made;
    } else {
      auto made = layer("kernel-" + options_.kernel + "-" + distribution(), {"kernel", options_.kernel});
      if (!made) return tl::unexpected(made.error());
      kernel = *made;
    }
    image_.kernel = kernel / "vmlinux";
    image_.release = first_line(kernel / "release");
    image_.layers.push_back(kernel / "modules.cpio");
    if (options_.siw && !fs::exists(kernel / "has-siw", error)) {
      if (own)
        return failure(Kind::missing,
                       options_.modules.string() + " contains no siw.ko; build the kernel with CONFIG_RDMA_SIW=m");
      auto siw = layer("siw-" + image_.release, {"siw", kernel.string(), options_.kernel});
      if (!siw) return tl::unexpected(siw.error());
      image_.layers.push_back(*siw / "siw.cpio");
    }
    image_.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return image_;
  }

 private:
  Result<fs::path> own_kernel() {
    std::error_code error;
    const fs::path modules = fs::absolute(options_.modules, error), kernel = fs::absolute(options_.kernel, error);
    struct stat found {};
    ::stat(options_.kernel.c_str(), &found);
    const std::string state =
        fmt::format("{}:{}:{}.{}", kernel.string(), modules.string(), static_cast<std::int64_t>(found.st_mtim.tv_sec),
                    static_cast<std::int64_t>(found.st_mtim.tv_nsec));
    return layer("kernel-own-" + fingerprint({state}), {"kernel", kernel.string(), modules.string()});
  }

  // Returns the layer's directory in the cache and builds it if necessary.
  Result<fs::path> layer(const std::string& name, std::vector<std::string> arguments) {
    const fs::path path =
        options_.cache / (name + "-" + fingerprint({build_script, arguments[0] == "tools" ? init_script : ""}));
    std::error_code error;
    if (fs::exists(path, error) && !options_.update) return path;
    auto held = lock_cache(options_.cache, options_.stop, options_.progress);
    if (!held) return tl::unexpected(held.error());
    if (fs::exists(path, error) && !options_.update) return path;
    image_.built = true;
    auto unfinished_layer = Unfinished::make(options_.cache);
    if (!unfinished_layer) return tl::unexpected(unfinished_layer.error());
    arguments.insert(arguments.begin() + 1, unfinished_layer->path().string());
    if (auto built = run_script(name, unfinished_layer->path(), arguments); !built)
      return tl::unexpected(built.error());
    if (auto finished = unfinished_layer->finish(path); !finished) return tl::unexpected(finished.error());
    // Remove layers that an older version of the scripts built.
    for (const auto& entry : fs::directory_iterator(options_.cache, error)) {
      const std::string other = entry.path().filename().string();
      if (other.size() == name.size() + 11 && other.rfind(name + "-", 0) == 0 && entry.path() != path)
        fs::remove_all(entry.path(), error);
    }
    return path;
  }

  Result<void> run_script(const std::string& name, const fs::path& into, const std::vector<std::string>& arguments) {
    const fs::path scripts = into / "work";
    const fs::path log = into / "log";
    std::error_code error;
    fs::create_directory(scripts, error);
    for (const auto& [file, text] : {std::pair{"build", build_script}, std::pair{"init", init_script}}) {
      std::ofstream out(scripts / file, std::ios::binary);
      out << text;
      if (!out.flush())
        return failure(Kind::space, "write " + (scripts / file).string() + ": failed; check the free disk space");
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure("build the guest's image: pipe");
    Descriptor reading(ends[0]), writing(ends[1]);
    Descriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!output) return system_failure("making " + log.string());
    Process::Options how;
    how.argv = {"bash", (scripts / "build").string()};
    how.argv.insert(how.argv.end(), arguments.begin(), arguments.end());
    how.descriptors = {{output.get(), 1}, {output.get(), 2}, {writing.get(), 3}};
    how.environment = {{"RDMAWIRE_LAB_BUSYBOX", busybox_.string()}, {"TMPDIR", scripts.string()}};
    auto process = Process::start(how);
    if (!process) return tl::unexpected(process.error());
    writing.reset();

    std::string text, trouble;
    while (true) {
      pollfd waiting[] = {{reading.get(), POLLIN, 0}, {options_.stop, POLLIN, 0}};
      if (::poll(waiting, 2, -1) < 0 && errno != EINTR) return system_failure("build the guest's image: poll");
      if (waiting[1].revents != 0) return failure(Kind::stopped, "stopped during the build of the guest's image");
      if (waiting[0].revents == 0) continue;
      char buffer[512];
      const ssize_t got = ::read(reading.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
      for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
        const std::string line = text.substr(0, end);
        if (line.rfind("failed: ", 0) == 0) {
          if (trouble.empty()) trouble = line.substr(8);
        } else if (options_.progress) {
          options_.progress(line);
        }
      }
    }
    while (!process->status()) {
      pollfd waiting[] = {{process->descriptor(), POLLIN, 0}, {options_.stop, POLLIN, 0}};
      ::poll(waiting, 2, -1);
      if (waiting[1].revents != 0) return failure(Kind::stopped, "stopped during the build of the guest's image");
    }
    const int status = *process->status();
    if (status == 0) return {};
    return explain(name, read_file(log), trouble, status);
  }

  [[nodiscard]] tl::unexpected<LabError> explain(const std::string& name, const std::string& log,
                                                 const std::string& trouble, int status) const {
    bool full = false;
    for (const char* said : {"No space left on device", "File size limit", "Disk quota exceeded", "File too large"})
      full = full || log.find(said) != log.npos;
    // If the disk is full, the log may be missing or incomplete.
    std::error_code error;
    const auto space = fs::space(options_.cache, error);
    full = full || (!error && space.available < (64U << 20));
    std::string message = "build of the guest's " + name.substr(0, name.find('-')) + " failed: ";
    if (full)
      return failure(Kind::space, message + "the disk is full; free space in " + options_.cache.string() +
                                      ", or set XDG_CACHE_HOME to another directory");
    message += trouble.empty() ? describe_status(status) : trouble;
    std::vector<std::string> lines;
    std::istringstream in(log);
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) lines.push_back(line);
    for (std::size_t i = lines.size() - std::min<std::size_t>(lines.size(), 8); i < lines.size(); ++i)
      message += "\n  " + lines[i];
    return failure(trouble.find("install the package") != trouble.npos ? Kind::missing : Kind::build, message);
  }

  const ImageOptions& options_;
  Image image_;
  fs::path busybox_;
};

std::uint64_t bytes_of(const fs::path& path) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(path, error))
    if (!entry.is_symlink(error) && entry.is_regular_file(error)) bytes += entry.file_size(error);
  return bytes;
}

}  // namespace

fs::path default_cache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return fs::path(cache) / "rdmawire/lab";
  if (const char* home = std::getenv("HOME"); home && *home == '/') return fs::path(home) / ".cache/rdmawire/lab";
  const struct passwd* user = ::getpwuid(::getuid());
  if (user && user->pw_dir && *user->pw_dir == '/') return fs::path(user->pw_dir) / ".cache/rdmawire/lab";
  // A fixed name in /tmp could belong to another user. The directory of running labs is checked to belong to this user.
  const auto private_folder = runtime_folder();
  return private_folder ? private_folder->parent_path() / "cache" : fs::path("/nonexistent/rdmawire/lab");
}

Result<Image> provide_image(const ImageOptions& options) { return Builder(options).provide(); }

std::vector<CachedLayer> cached_layers(const fs::path& cache) {
  std::vector<CachedLayer> layers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    CachedLayer layer;
    layer.name = entry.path().filename();
    if (layer.name.rfind(unfinished, 0) == 0) layer.name = "(being built)";
    layer.bytes = bytes_of(entry.path());
    std::ifstream in(entry.path() / "packages");
    for (std::string name, version; in >> name >> version;) layer.packages[name] = version;
    layers.push_back(std::move(layer));
  }
  std::sort(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return layers;
}

Result<std::uint64_t> clean_cache(const fs::path& cache, StopDescriptor stop, const Progress& progress) {
  std::error_code error;
  if (!fs::exists(cache, error)) return 0;
  auto held = lock_cache(cache, stop, progress);
  if (!held) return tl::unexpected(held.error());
  const std::uint64_t bytes = bytes_of(cache);
  for (const auto& entry : fs::directory_iterator(cache, error)) fs::remove_all(entry.path(), error);
  return bytes;
}

}  // namespace rdmawire::lab
