#pragma once
/// Output files. An existing file is replaced only when the new file is complete, and an input file is never
/// overwritten.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rdmawire::captures {

/// Returns whether both paths refer to the same regular file: they are equal, or are hard links or symbolic links to
/// it.
bool same_file(const std::string& a, const std::string& b);

/// Returns an error if `output` is one of the input files.
tl::expected<void, std::string> check_output(const std::string& output, std::span<const std::string> inputs);

/// A file that gets its name when it is complete. Before that, it has no name, or a temporary name in the same
/// directory if the file system requires one. If commit() is not called, an existing file keeps its contents.
///
/// Devices and pipes are written directly. If the path is a symbolic link, its target is replaced. The permissions of
/// an existing file are kept.
class OutputFile {
 public:
  /// An error is one sentence that contains the path.
  using Result = tl::expected<void, std::string>;

  static tl::expected<OutputFile, std::string> create(const std::string& path);
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  /// Discards the file if it was not committed.
  ~OutputFile();

  [[nodiscard]] int descriptor() const;
  /// Returns whether the contents can be discarded. False for devices and pipes.
  [[nodiscard]] bool discards() const;
  Result write(std::string_view bytes);
  /// Gives the file its name. Must be called once.
  Result commit();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes a complete file. An error is one sentence that contains the path.
OutputFile::Result write_file(const std::string& path, std::string_view bytes);

}  // namespace rdmawire::captures
