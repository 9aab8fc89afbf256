#pragma once
/// What a guest is booted from: a kernel, its modules and the programs, out of Debian packages, built once and cached.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "conformance/lab/error.hpp"

namespace rdmawire::lab {

/// $XDG_CACHE_HOME/rdmawire/lab, or ~/.cache/rdmawire/lab.
std::filesystem::path default_cache();

struct ImageOptions {
  std::string kernel = "debian";  ///< "debian", "newest", or the path of a bzImage or vmlinux
  std::filesystem::path modules;  ///< with a path: the kernel's directory of modules (…/lib/modules/RELEASE)
  bool siw = false;               ///< siw.ko is needed
  std::filesystem::path cache = default_cache();
  bool update = false;  ///< build anew even when it is cached
  StopDescriptor stop = -1;
  Progress progress;
};

/// An image that is ready to be booted.
struct Image {
  std::filesystem::path kernel;               ///< what qemu takes
  std::vector<std::filesystem::path> layers;  ///< cpio archives, the later ones on top
  std::filesystem::path root;                 ///< the programs' layer as files
  std::string release;                        ///< of the kernel: 6.1.0-56-amd64
  bool built = false;                         ///< something was not in the cache
  double seconds = 0;                         ///< that it took
};

/// Takes from the cache what is there and builds the rest. Two at once wait for each other. Nothing half built is ever
/// left or used.
Result<Image> provide_image(const ImageOptions& options);

/// What the cache holds.
struct CachedLayer {
  std::string name;
  std::uint64_t bytes = 0;
  std::map<std::string, std::string> packages;  ///< with their versions
};
std::vector<CachedLayer> cached_layers(const std::filesystem::path& cache);

/// Empties the cache and gives the bytes that were freed; waits for who builds in it.
Result<std::uint64_t> clean_cache(const std::filesystem::path& cache, StopDescriptor stop, const Progress& progress);

}  // namespace rdmawire::lab
