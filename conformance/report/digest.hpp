#pragma once
/// SHA-256 digests and Ed25519 signatures, by OpenSSL.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rdmawire::conformance {

/// The SHA-256 digest as 64 hexadecimal digits.
std::string sha256_of(std::string_view bytes);
/// The digest of a regular file. Does not follow symbolic links. The error is one sentence with the path.
tl::expected<std::string, std::string> sha256_of_file(const std::filesystem::path& path);

/// An Ed25519 key of a PEM file, see `openssl genpkey -algorithm ed25519`.
class SignatureKey {
 public:
  /// Reads a private key (PKCS #8), which can sign. Fails for an encrypted key, because there is no prompt for a
  /// passphrase.
  static tl::expected<SignatureKey, std::string> read_private(const std::filesystem::path& path);
  /// Reads a public key (SubjectPublicKeyInfo).
  static tl::expected<SignatureKey, std::string> read_public(const std::filesystem::path& path);

  /// The signature of the bytes: 64 bytes, as `openssl pkeyutl -sign -rawin` writes them. Requires a private key.
  [[nodiscard]] tl::expected<std::string, std::string> sign(std::string_view bytes) const;
  /// Returns whether the signature is that of this key.
  [[nodiscard]] bool verifies(std::string_view bytes, std::string_view signature) const;
  /// The SHA-256 digest of the public key's DER encoding, as 64 hexadecimal digits.
  [[nodiscard]] std::string fingerprint() const;

 private:
  struct Library;
  explicit SignatureKey(std::shared_ptr<const Library> key) : key_(std::move(key)) {}
  static tl::expected<SignatureKey, std::string> read(const std::filesystem::path& path, bool is_private);
  std::shared_ptr<const Library> key_;
};

}  // namespace rdmawire::conformance
