#pragma once
/// The memory of scripts at a device behind an agent. Each region has separate memory, which is read only if its
/// checksum differs from that of the expected content.

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
  /// `peer` must outlive this.
  explicit RemoteMemory(peer::Peer& peer) : peer_(&peer) {}

  /// Send a command to the agent. Returns an empty object on errors. `lost`: reason if the agent is lost.
  nlohmann::json run_command(const char* command, const nlohmann::json& arguments, std::optional<std::string>& lost);
  /// Send a command without waiting. The agent executes commands for the same object in order.
  void post_command(const char* command, const nlohmann::json& arguments, std::optional<std::string>& lost);
  /// Wait for the responses to all posted commands, and ignore errors of the commands.
  void wait_for_posted(std::optional<std::string>& lost);
  /// Register all regions, replacing existing ones, and store keys and addresses in `objects`.
  void make(std::uint32_t pd, std::uint32_t other_pd, std::uint32_t all_rights, KnownObjects& objects,
            std::optional<std::string>& lost);
  /// Fill the memory with the initial content of a script. Writes only different bytes.
  void fill(std::optional<std::string>& lost);
  /// Request the checksums for the next look() early, to save time. Otherwise look() requests them.
  void request_checksums(std::optional<std::string>& lost);
  /// Read the memory of the device if it differs from the expected memory.
  void look(Bytes expected, std::optional<std::string>& lost);
  [[nodiscard]] Bytes bytes() const { return arena_; }

  /// Return receive request `number`, with the same buffer and identifier as in the reference fixture.
  nlohmann::json receive(std::uint32_t number, std::int64_t bytes);
  /// Expect an IPv4 header, that of one of these frames, before the datagram in the buffer of this receive request. It
  /// is the second half of 40 bytes, whose first half is undefined (A17.4.5.2). Its addresses differ from the reference
  /// device's. If it is correct, bytes() contains the reference device's header instead.
  void expect_network_header(std::uint64_t id, std::span<const std::vector<std::uint8_t>> frames);
  /// Return the handle of the region of a key. 0: none.
  [[nodiscard]] std::uint32_t handle(Key key) const;
  /// Return a buffer in the device's local memory, for sends and READ responses.
  [[nodiscard]] nlohmann::json local(std::int64_t offset, std::int64_t bytes) const;

 private:
  static constexpr std::size_t regions = 7;
  static constexpr std::size_t network_bytes = 40, ipv4_bytes = 20;
  /// Location of a datagram and the header before it.
  struct NetworkHeader {
    std::size_t offset;
    std::array<std::uint8_t, network_bytes> bytes;
    bool there = false;  ///< true: the header was found in the memory
  };
  /// Return the response of a sent command, or nothing after an error, which is stored in `lost`.
  std::optional<nlohmann::json> collect(const char* command, std::uint64_t number, std::optional<std::string>& lost);
  /// Compare the requested checksums with this content, and call `differs` with the index of each different region.
  template <class Differs>
  void compare(Bytes content, std::optional<std::string>& lost, const Differs& differs);

  struct Posted {
    const char* command;
    std::uint64_t number;
  };

  peer::Peer* peer_;
  std::vector<Posted> posted_;
  std::vector<std::optional<std::uint64_t>> checksums_;  ///< requests, by region
  std::vector<std::uint8_t> known_;                      ///< content when it was read or filled last. Empty: unknown
  std::array<std::uint32_t, regions> handles_{};
  std::vector<std::uint8_t> arena_;
  std::vector<std::size_t> placed_;  ///< offsets of receive requests, by number
  std::vector<NetworkHeader> headers_;
};

}  // namespace rdmawire::fuzzer
