#pragma once
/// Image of a guest: kernel, modules and programs from Debian packages, built once and cached.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "conformance/lab/error.hpp"

namespace rdmawire::lab {

/// Returns $XDG_CACHE_HOME/rdmawire/lab, or ~/.cache/rdmawire/lab. If HOME is unset, ~ is the home directory in the
/// user database. If there is none, returns a directory that only this user can write.
std::filesystem::path default_cache();

struct ImageOptions {
  std::string kernel = "debian";  ///< "debian", "newest", or the path of a bzImage or vmlinux
  std::filesystem::path modules;  ///< if `kernel` is a path: its module directory (…/lib/modules/RELEASE)
  bool siw = false;               ///< the image must contain siw.ko
  std::filesystem::path cache = default_cache();
  bool update = false;  ///< rebuild even if cached
  StopDescriptor stop = -1;
  Progress progress;
};

/// A bootable image.
struct Image {
  std::filesystem::path kernel;               ///< kernel file for qemu
  std::vector<std::filesystem::path> layers;  ///< cpio archives. A file of a later archive replaces an earlier one
  std::filesystem::path root;                 ///< directory with the unpacked files of the program layer
  std::string release;                        ///< kernel release: 6.1.0-56-amd64
  bool built = false;                         ///< true: at least one layer was built. false: all were cached
  double seconds = 0;                         ///< time for building or finding the image
};

/// Returns the image, and builds the layers that are not cached. Concurrent builds wait for each other. Incomplete
/// layers of failed or killed builds are removed.
Result<Image> provide_image(const ImageOptions& options);

/// A layer in the cache.
struct CachedLayer {
  std::string name;
  std::uint64_t bytes = 0;
  std::map<std::string, std::string> packages;  ///< package names and versions
};
std::vector<CachedLayer> cached_layers(const std::filesystem::path& cache);

/// Empties the cache and returns the number of freed bytes. Waits for concurrent builds.
Result<std::uint64_t> clean_cache(const std::filesystem::path& cache, StopDescriptor stop, const Progress& progress);

}  // namespace rdmawire::lab
