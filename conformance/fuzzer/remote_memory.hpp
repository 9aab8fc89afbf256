#pragma once
/// The memory that scripts speak of, at a device behind an agent: each region in memory of its own, looked at by
/// checksums, and read where they differ from the reference's.

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/layout.hpp"
#include "dissectors/protocol/bits.hpp"
#include "replay/peer/peer.hpp"

namespace rdmawire::fuzzer {

class RemoteMemory {
 public:
  /// `peer` must outlive it.
  explicit RemoteMemory(peer::Peer& peer) : peer_(&peer) {}

  /// Asks the agent; where it is refused, an empty object. `lost`: why the agent is there no more.
  nlohmann::json ask(const char* command, const nlohmann::json& arguments, std::optional<std::string>& lost);
  /// Registers all regions, anew if they are there, and tells keys and addresses.
  void make(std::uint32_t pd, std::uint32_t other_pd, std::uint32_t all_rights, KnownObjects& objects,
            std::optional<std::string>& lost);
  /// As a world begins.
  void fill(std::optional<std::string>& lost);
  /// Learns what it holds, beside what it should.
  void look(Bytes expected, std::optional<std::string>& lost);
  [[nodiscard]] Bytes bytes() const { return arena_; }

  /// The receive request of that number, in the place and with the identifier that a world gives it.
  nlohmann::json receive(std::uint32_t number, std::int64_t bytes);
  /// A datagram came to the receive request with that identifier: the second half of the 40 bytes before it is to be
  /// the IPv4 header of one of these frames, whose addresses are not the reference's; of the first half nothing is
  /// promised (A17.4.5.2). Where it is, bytes() has the reference's.
  void expect_network_header(std::uint64_t id, std::span<const std::vector<std::uint8_t>> frames);
  /// The handle of what that key opens; 0: of none.
  [[nodiscard]] std::uint32_t handle(Key key) const;
  /// Bytes of the device's own memory, which it sends from and reads into.
  [[nodiscard]] nlohmann::json local(std::int64_t offset, std::int64_t bytes) const;

 private:
  static constexpr std::size_t regions = 7;
  static constexpr std::size_t network_bytes = 40, ipv4_bytes = 20;
  /// Where a datagram lies, and what stands before it.
  struct NetworkHeader {
    std::size_t offset;
    std::array<std::uint8_t, network_bytes> bytes;
    bool there = false;  ///< it was found as it is to be; before that its first half is not known
  };
  /// The answer to a command that was sent; nothing: why is in `lost`.
  std::optional<nlohmann::json> collect(const char* command, std::uint64_t number, std::optional<std::string>& lost);

  peer::Peer* peer_;
  std::array<std::uint32_t, regions> handles_{};
  std::vector<std::uint8_t> arena_;
  std::vector<std::size_t> placed_;  ///< where each receive request lies, by number
  std::vector<NetworkHeader> headers_;
};

}  // namespace rdmawire::fuzzer
