#include "conformance/report/digest.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/provider.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "captures/io/output_file.hpp"

namespace rdmawire::conformance {
namespace {

namespace fs = std::filesystem;

/// OpenSSL without the providers in the configuration file of the host, which a static program cannot load. It is never
/// freed, because threads that used it refer to it until they end. nullptr: failed.
OSSL_LIB_CTX* library() {
  static OSSL_LIB_CTX* const made = [] {
    OSSL_LIB_CTX* context = OSSL_LIB_CTX_new();
    return context != nullptr && OSSL_PROVIDER_load(context, "default") != nullptr ? context : nullptr;
  }();
  return made;
}

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using DigestContext = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using Memory = std::unique_ptr<BIO, Freed<BIO_free_all>>;

std::string hexadecimal(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

/// A digest that grows.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()), type_(EVP_MD_fetch(library(), "SHA256", nullptr)) {
    works_ = context_ && type_ && EVP_DigestInit_ex(context_.get(), type_.get(), nullptr) == 1;
  }
  void add(const void* bytes, std::size_t size) {
    works_ = works_ && EVP_DigestUpdate(context_.get(), bytes, size) == 1;
  }
  /// Empty: OpenSSL failed.
  std::string text() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    works_ = works_ && EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1;
    return works_ ? hexadecimal(std::span(digest).first(size)) : std::string();
  }

 private:
  DigestContext context_;
  std::unique_ptr<EVP_MD, Freed<EVP_MD_free>> type_;
  bool works_ = false;
};

/// Fails instead of prompting for a passphrase at the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

tl::unexpected<std::string> failed(const fs::path& path, std::string_view what) {
  return tl::unexpected(fmt::format("{}: {}", path.string(), what));
}

/// Reads a small file. Keys are less than 200 bytes.
tl::expected<std::string, std::string> text_of_key(const fs::path& path) {
  constexpr std::size_t most = 16384;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failed(path, std::strerror(errno));
  std::string text(most, '\0');
  const ssize_t size = ::read(file, text.data(), text.size());
  const int number = errno;
  ::close(file);
  if (size < 0) return failed(path, std::strerror(number));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

}  // namespace

std::string sha256_of(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes.data(), bytes.size());
  return digest.text();
}

tl::expected<std::string, std::string> sha256_of_file(const fs::path& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return failed(path, errno == ELOOP ? "is a symbolic link" : std::strerror(errno));
  struct stat about {};
  if (::fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(file);
    return failed(path, "is not a regular file");
  }
  Sha256 digest;
  std::string buffer(std::size_t{1} << 16, '\0');
  ssize_t size = 0;
  while ((size = ::read(file, buffer.data(), buffer.size())) != 0) {
    if (size > 0)
      digest.add(buffer.data(), static_cast<std::size_t>(size));
    else if (errno != EINTR)
      break;
  }
  const int number = errno;
  ::close(file);
  if (size < 0) return failed(path, std::strerror(number));
  std::string text = digest.text();
  if (text.empty()) return failed(path, "OpenSSL cannot compute SHA-256");
  return text;
}

struct SignatureKey::Library {
  EVP_PKEY* key = nullptr;

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { EVP_PKEY_free(key); }
};

tl::expected<SignatureKey, std::string> SignatureKey::read(const fs::path& path, bool is_private) {
  auto text = text_of_key(path);
  if (!text) return tl::unexpected(text.error());
  const Memory memory(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())));
  auto made = std::make_shared<Library>();
  bool encrypted = false;
  if (memory)
    made->key = is_private
                    ? PEM_read_bio_PrivateKey_ex(memory.get(), nullptr, no_passphrase, &encrypted, library(), nullptr)
                    : PEM_read_bio_PUBKEY_ex(memory.get(), nullptr, no_passphrase, &encrypted, library(), nullptr);
  OPENSSL_cleanse(text->data(), text->size());
  ERR_clear_error();
  const char* kind = is_private ? "private" : "public";
  if (encrypted) return failed(path, "the key is encrypted; decrypt it with openssl pkey first");
  if (made->key == nullptr) return failed(path, fmt::format("contains no {} key in PEM format", kind));
  if (EVP_PKEY_is_a(made->key, "ED25519") != 1)
    return failed(
        path,
        fmt::format("is a {} key of another algorithm; expected Ed25519 (openssl genpkey -algorithm ed25519)", kind));
  return SignatureKey(std::move(made));
}
tl::expected<SignatureKey, std::string> SignatureKey::read_private(const fs::path& path) { return read(path, true); }
tl::expected<SignatureKey, std::string> SignatureKey::read_public(const fs::path& path) { return read(path, false); }

tl::expected<std::string, std::string> SignatureKey::sign(std::string_view bytes) const {
  const DigestContext context(EVP_MD_CTX_new());
  std::string signature(64, '\0');
  std::size_t size = signature.size();
  if (!context || EVP_DigestSignInit_ex(context.get(), nullptr, nullptr, library(), nullptr, key_->key, nullptr) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) != 1) {
    ERR_clear_error();
    return tl::unexpected(std::string("OpenSSL cannot sign with this key"));
  }
  signature.resize(size);
  return signature;
}

bool SignatureKey::verifies(std::string_view bytes, std::string_view signature) const {
  const DigestContext context(EVP_MD_CTX_new());
  const bool valid =
      context &&
      EVP_DigestVerifyInit_ex(context.get(), nullptr, nullptr, library(), nullptr, key_->key, nullptr) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) == 1;
  ERR_clear_error();
  return valid;
}

std::string SignatureKey::fingerprint() const {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key_->key, &der);
  if (size <= 0) return {};
  std::string text = sha256_of({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  return text;
}

}  // namespace rdmawire::conformance
