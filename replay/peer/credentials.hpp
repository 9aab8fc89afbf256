#pragma once
/// Keys that authenticate a controller and an agent to each other: docs/how-to/agent-credentials.md.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace rdmawire::peer {

/// A shared key of TLS. Its bytes are overwritten when the object is destroyed.
struct Key {
  static constexpr std::size_t size = 32;  ///< bytes

  std::string id;  ///< sent in plain text
  std::array<std::uint8_t, size> bytes{};

  Key() = default;
  Key(const Key&) = default;
  Key(Key&&) = default;
  Key& operator=(const Key&) = default;
  Key& operator=(Key&&) = default;
  ~Key();
};

/// Returns a random key. Its ID contains the date. Fails without a source of random numbers.
tl::expected<Key, std::string> make_key();

/// True for 1 to 64 letters, digits, and "._-".
bool is_key_id(std::string_view text);

/// Parses lines "ID KEY", the key as 64 hexadecimal digits. Empty lines and lines that start with "#" are ignored. An
/// error names the line, without its contents.
tl::expected<std::vector<Key>, std::string> parse_keys(std::string_view text);

/// Reads a key file. Only its owner may have access. A file owned by root may be readable by its group.
tl::expected<std::vector<Key>, std::string> read_keys(const std::string& path);

struct MadeCredentials {
  std::string agent_file, controller_file, key_id;
  std::size_t earlier_keys = 0;  ///< keys that the agent's file already had, and that remain valid
};

/// Creates the directory, if it does not exist, and a new key in it: "agent.keys" has this key and all earlier ones,
/// "controller.key" only this one. Only the owner can access the directory and the files.
tl::expected<MadeCredentials, std::string> make_credentials(const std::string& directory);

}  // namespace rdmawire::peer
