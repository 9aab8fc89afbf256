#pragma once
/// The evidence package: a report directory with a manifest, which contains the circumstances of the run and the
/// SHA-256 digest of every file. A signature is optional.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/report/digest.hpp"
#include "conformance/report/report.hpp"

namespace rdmawire::conformance {

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* signature_name = "manifest.sig";

/// A part of the run: several, if it was interrupted and resumed. Times are UTC: "2026-11-27T15:50:36Z".
struct Session {
  std::string start, end{};  ///< `end` is empty while the part runs, and if it was killed

  friend bool operator==(const Session&, const Session&) = default;
};

struct PackageFile {
  std::string path;  ///< relative to the package, with slashes
  std::uint64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  std::string program, commit, device, details;
  std::string partial;  ///< why some selected cases did not run. Empty: all ran
  std::uint64_t seed = 0;
  std::vector<Session> sessions;
  std::vector<PackageFile> files;  ///< all files except the manifest and its signature

  /// Returns whether the run ended and the manifest is complete.
  [[nodiscard]] bool finished() const { return !sessions.empty() && !sessions.back().end.empty(); }
};

/// Parses a manifest. The error contains `name` and the member.
tl::expected<Manifest, std::string> parse_manifest(const std::string& text, const std::string& name);
/// Reads the manifest of a package.
tl::expected<Manifest, std::string> read_manifest(const std::filesystem::path& directory);

/// The version of rdmawire and the commit of its build.
std::string program_and_commit();

/// The device's description of itself: the agent's `hello` and `describe`.
nlohmann::ordered_json description_of(Target& target);

/// Returns whether a directory contains the report of a run, or parts of it: a manifest, results or captures.
bool contains_report(const std::filesystem::path& directory);
/// Removes the files of a report, and keeps all other files of the directory.
tl::expected<void, std::string> remove_report(const std::filesystem::path& directory);

/// The package of a run.
class Package {
 public:
  /// Writes a manifest without files, so that the start of a killed run is known. `resumes`: keeps the sessions of the
  /// present manifest. Removes a signature.
  static tl::expected<Package, std::string> begin(const std::filesystem::path& directory, bool resumes);

  /// The same for a package that is merged from finished parts, with their sessions.
  static tl::expected<Package, std::string> begin_merged(const std::filesystem::path& directory,
                                                         std::vector<Session> sessions);

  /// Copies an input of the run, e.g. the file of waivers, to DIR/inputs/NAME.
  tl::expected<void, std::string> add_input(const std::filesystem::path& file, const std::string& name);
  /// Writes the manifest of all files, and signs it if there is a key. Call after all other files are complete.
  /// `circumstances`: members of the manifest about device and parameters.
  tl::expected<void, std::string> finish(const Report& report, const nlohmann::ordered_json& circumstances,
                                         const SignatureKey* key);
  /// Files in the directory that do not belong to the package. Their presence fails the verification.
  [[nodiscard]] const std::vector<std::string>& foreign() const { return foreign_; }

 private:
  explicit Package(std::filesystem::path directory) : directory_(std::move(directory)) {}
  /// Writes the manifest of a package without files.
  tl::expected<void, std::string> write_unfinished(bool removes_inputs);

  std::filesystem::path directory_;
  std::vector<Session> sessions_;
  std::vector<std::string> foreign_;
  std::set<std::string, std::less<>> inputs_;
};

/// A file that differs from the manifest.
struct FileProblem {
  enum class Kind : std::uint8_t { modified, missing, additional } kind = Kind::modified;
  std::string path;
  std::string what;  ///< "1024 bytes instead of 1000", "is a symbolic link". Empty: no further information
};
std::string_view to_string(FileProblem::Kind kind);

enum class SignatureState : std::uint8_t {
  none,       ///< the package is not signed
  unchecked,  ///< signed, but no public key was given
  valid,
  invalid,
  missing,  ///< a public key was given, but the package is not signed
};
std::string_view to_string(SignatureState state);

struct PackageCheck {
  Manifest manifest;
  std::filesystem::path directory;
  std::string manifest_sha256;
  std::vector<FileProblem> problems;  ///< by path
  SignatureState signature = SignatureState::none;

  /// Returns whether the files are unchanged, and the signature is valid if a public key was given.
  [[nodiscard]] bool is_intact() const {
    return manifest.finished() && problems.empty() && signature != SignatureState::invalid &&
           signature != SignatureState::missing;
  }
  /// Returns whether all selected cases ran.
  [[nodiscard]] bool is_complete() const { return manifest.finished() && manifest.partial.empty(); }
};

/// Compares a package with its manifest. Fails if the manifest is unreadable.
tl::expected<PackageCheck, std::string> verify_package(const std::filesystem::path& directory,
                                                       const SignatureKey* key = nullptr);
std::string text_of(const PackageCheck& check);
nlohmann::ordered_json to_json(const PackageCheck& check);

}  // namespace rdmawire::conformance
