#pragma once
/// TLS 1.3 between a controller and an agent, authenticated by a shared key (RFC 8446, 2.2, and RFC 9257).

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "replay/peer/credentials.hpp"

namespace rdmawire::peer {

/// Configuration of one side. The controller is always the TLS client, and the agent the server.
class TlsContext {
 public:
  enum class Side : std::uint8_t { controller, agent };

  /// `keys`: the agent accepts each of them. The controller must have exactly one.
  static tl::expected<std::shared_ptr<const TlsContext>, std::string> make(Side side, std::vector<Key> keys);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  [[nodiscard]] Side side() const { return side_; }

 private:
  friend class TlsChannel;
  struct Library;
  TlsContext(Side side, std::vector<Key> keys);
  [[nodiscard]] const Key* find(std::string_view id) const;

  Side side_;
  std::vector<Key> keys_;
  std::unique_ptr<Library> library_;
};

/// One end of a connection, independent of sockets: converts between plain text and records.
class TlsChannel {
 public:
  /// A controller's first message is in take_output() immediately.
  explicit TlsChannel(std::shared_ptr<const TlsContext> context);
  TlsChannel(TlsChannel&& other) noexcept;
  TlsChannel& operator=(TlsChannel&& other) noexcept;
  ~TlsChannel();

  /// Processes received bytes and appends their plain text. Returns false if the connection failed: see error().
  /// take_output() then contains an alert for the peer.
  [[nodiscard]] bool receive(std::string_view bytes, std::string& text);
  /// Requires established().
  void send(std::string_view text);
  /// Bytes for the peer.
  [[nodiscard]] std::string take_output();

  /// Returns whether the handshake is complete: the peer has the same key.
  [[nodiscard]] bool established() const;
  /// Returns whether the peer ended the connection in an orderly way.
  [[nodiscard]] bool closed() const;
  /// Returns whether the peer's first byte belongs to no TLS record.
  [[nodiscard]] bool peer_sends_plain_text() const;
  /// ID of the key in use. An agent returns "" until it receives the ID.
  [[nodiscard]] const std::string& key_id() const;
  /// Returns why receive() failed: one clause, without the peer's address.
  [[nodiscard]] const std::string& error() const;

 private:
  friend class TlsContext;
  struct State;
  std::unique_ptr<State> state_;
};

/// True if the bytes start a TLS connection: a handshake record of version 3.x.
[[nodiscard]] inline bool looks_like_tls(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x16 && bytes[1] == 0x03;
}

}  // namespace rdmawire::peer
