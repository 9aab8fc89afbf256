#pragma once
/// Image of a guest: kernel, modules and programs from Debian packages, built once and cached.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "conformance/lab/error.hpp"

namespace rdmawire::lab {

/// $XDG_CACHE_HOME/rdmawire/lab, or ~/.cache/rdmawire/lab. Without HOME, the home directory of the user database, or a
/// directory that only this user can write. The cache must belong to this user.
std::filesystem::path default_cache();

struct ImageOptions {
  std::string kernel = "debian";  ///< "debian", "newest", or the path of a bzImage or vmlinux
  std::filesystem::path modules;  ///< with a path: module directory of the kernel (…/lib/modules/RELEASE)
  bool siw = false;               ///< siw.ko is required
  std::filesystem::path cache = default_cache();
  bool update = false;  ///< rebuild even if cached
  StopDescriptor stop = -1;
  Progress progress;
};

/// A bootable image.
struct Image {
  std::filesystem::path kernel;               ///< kernel file for qemu
  std::vector<std::filesystem::path> layers;  ///< cpio archives. Later ones take precedence
  std::filesystem::path root;                 ///< files of the program layer
  std::string release;                        ///< kernel release: 6.1.0-56-amd64
  bool built = false;                         ///< some layer was not cached
  double seconds = 0;                         ///< build time
};

/// Returns the image and builds layers that are not cached. Concurrent calls wait for each other. Incomplete layers are
/// removed.
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
