#include "replay/peer/credentials.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace rdmawire::peer {

namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 10;
constexpr std::size_t most_id = 64;
constexpr std::string_view heading =
    "# Credentials of rdmawire-agent. A process that can read this file can control the agent.\n";

using Text = tl::expected<std::string, std::string>;

tl::unexpected<std::string> wrong_file(std::string_view path, std::string_view why) {
  return tl::unexpected(fmt::format("{}: {}", path, why));
}
tl::unexpected<std::string> file_error(std::string_view path) { return wrong_file(path, std::strerror(errno)); }

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string text_of(const Key& key) {
  std::string text = key.id + ' ';
  for (const std::uint8_t byte : key.bytes) text += fmt::format("{:02x}", byte);
  return text + '\n';
}

/// The file's text, or an error if other users have access.
Text read_private(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return file_error(path);
  struct stat what {};
  if (::fstat(file.get(), &what) != 0) return file_error(path);
  if (!S_ISREG(what.st_mode)) return wrong_file(path, "not a regular file");
  const unsigned forbidden = what.st_uid == 0 ? 037 : 077;
  if ((what.st_mode & forbidden) != 0)
    return wrong_file(path, fmt::format("other users can access this file (mode {:04o}); use chmod 600",
                                        static_cast<unsigned>(what.st_mode) & 07777U));
  std::string text(most_bytes + 1, '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path);
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  if (length > most_bytes) return wrong_file(path, fmt::format("exceeds {} bytes", most_bytes));
  text.resize(length);
  return text;
}

/// Replaces a file, so that a reader finds either the old or the new contents.
tl::expected<void, std::string> write_private(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());
  {
    const File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) return file_error(temporary);
    for (std::size_t length = 0; length < text.size();) {
      const ssize_t put = ::write(file.get(), text.data() + length, text.size() - length);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const auto error = file_error(temporary);
        ::unlink(temporary.c_str());
        return error;
      }
      length += static_cast<std::size_t>(put);
    }
    if (::fsync(file.get()) != 0) return file_error(temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return file_error(path);
  return {};
}

}  // namespace

Key::~Key() { OPENSSL_cleanse(bytes.data(), bytes.size()); }

tl::expected<Key, std::string> make_key() {
  Key key;
  std::array<std::uint8_t, 4> suffix{};
  if (RAND_priv_bytes(key.bytes.data(), static_cast<int>(key.bytes.size())) != 1 ||
      RAND_bytes(suffix.data(), static_cast<int>(suffix.size())) != 1)
    return tl::unexpected(std::string("OpenSSL has no random numbers"));
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  ::gmtime_r(&now, &date);
  key.id = fmt::format("{:04}-{:02}-{:02}-{:02x}{:02x}{:02x}{:02x}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday,
                       suffix[0], suffix[1], suffix[2], suffix[3]);
  return key;
}

bool is_key_id(std::string_view text) {
  return !text.empty() && text.size() <= most_id && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
           c == '-';
  });
}

tl::expected<std::vector<Key>, std::string> parse_keys(std::string_view text) {
  std::vector<Key> keys;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t space = line.find(' ');
    const std::string_view id = line.substr(0, space);
    const std::string_view digits = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    Key key;
    bool valid = is_key_id(id) && digits.size() == 2 * Key::size;
    for (std::size_t i = 0; valid && i < Key::size; ++i) {
      const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
      valid = high >= 0 && low >= 0;
      key.bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
    }
    if (!valid)
      return tl::unexpected(
          fmt::format("line {}: expected a key ID, a space, and {} hexadecimal digits", number, 2 * Key::size));
    if (std::ranges::any_of(keys, [&](const Key& other) { return other.id == id; }))
      return tl::unexpected(fmt::format("line {}: the key ID {} occurs twice", number, id));
    key.id = id;
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return tl::unexpected(std::string("contains no key; use rdmawire-agent --make-credentials"));
  return keys;
}

tl::expected<std::vector<Key>, std::string> read_keys(const std::string& path) {
  auto text = read_private(path);
  if (!text) return tl::unexpected(text.error());
  auto keys = parse_keys(*text);
  OPENSSL_cleanse(text->data(), text->size());
  if (!keys) return wrong_file(path, keys.error());
  return keys;
}

tl::expected<MadeCredentials, std::string> make_credentials(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return file_error(directory);
  struct stat what {};
  if (::stat(directory.c_str(), &what) != 0) return file_error(directory);
  if (!S_ISDIR(what.st_mode)) return wrong_file(directory, "not a directory");
  if ((what.st_mode & 022) != 0)
    return wrong_file(directory, fmt::format("other users can write to this directory (mode {:04o}); use chmod 700",
                                             static_cast<unsigned>(what.st_mode) & 07777U));
  MadeCredentials made{directory + "/agent.keys", directory + "/controller.key", {}, 0};
  std::string all(heading);
  if (::access(made.agent_file.c_str(), F_OK) == 0) {
    const auto earlier = read_keys(made.agent_file);
    if (!earlier) return tl::unexpected(earlier.error());
    for (const Key& key : *earlier) all += text_of(key);
    made.earlier_keys = earlier->size();
  }
  const auto key = make_key();
  if (!key) return tl::unexpected(key.error());
  made.key_id = key->id;
  // The agent's file first: a controller must only have keys that its agent knows.
  if (auto written = write_private(made.agent_file, all + text_of(*key)); !written)
    return tl::unexpected(written.error());
  if (auto written = write_private(made.controller_file, std::string(heading) + text_of(*key)); !written)
    return tl::unexpected(written.error());
  return made;
}

}  // namespace rdmawire::peer
