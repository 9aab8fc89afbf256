#pragma once
/// Tests of agents with rxe or siw. One lab guest per transport runs an agent, for all tests of a program. If
/// RDMAWIRE_TEST_AGENT is set, as in "unix:/run/agent", that agent is used instead. RDMAWIRE_TEST_IWARP_ADDRESS is then
/// the address of its iWARP device.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "conformance/lab/guest_for_test.hpp"
#include "replay/peer/connection_manager.hpp"

namespace rdmawire::peer::testing {

/// Returns the guest with rxe or siw, or the error if there is none. Boots each guest once per program.
inline lab::Result<lab::TestGuest>& test_guest(bool siw) {
  static std::map<bool, lab::Result<lab::TestGuest>> guests;
  auto found = guests.find(siw);
  if (found == guests.end()) found = guests.emplace(siw, lab::TestGuest::boot(siw, RDMAWIRE_AGENT)).first;
  return found->second;
}

/// A device with a protection domain, a completion queue and memory. Skips the test if there is none.
class DeviceTest : public ::testing::Test {
 protected:
  /// `transport`: "ib" or "iwarp". `name`: name of the device ("": the first one).
  void begin(const std::string& transport, const std::string& name = "") {
    std::string agent;
    if (const char* named = std::getenv("RDMAWIRE_TEST_AGENT")) {
      agent = named;
      if (const char* own = std::getenv("RDMAWIRE_TEST_IWARP_ADDRESS")) where = own;
    } else {
      auto& booted = test_guest(transport == "iwarp");
      if (!booted) {
        // Without qemu or an image, the tests are skipped.
        if (booted.error().kind == lab::LabError::Kind::missing ||
            booted.error().message.find("network") != std::string::npos)
          GTEST_SKIP() << booted.error().message;
        FAIL() << booted.error().message;
      }
      guest = &booted->guest;
      agent = booted->agent();
      where = booted->address();
    }
    Options options;
    options.timeout = std::chrono::seconds(20);
    auto connected = Peer::connect(agent, options);
    ASSERT_TRUE(connected) << connected.error().message;
    peer.emplace(std::move(*connected));
    const auto listed = peer->call("devices").value();
    for (const auto& one : listed.at("devices")) {
      if (one.at("transport") == transport && !device && (name.empty() || one.at("name") == name))
        device = Device::open(*peer, one.at("name").get<std::string>()).value();
    }
    if (!device) GTEST_SKIP() << "requires a device with transport " << transport;
    if (!device.iwarp()) where = device.address();
    if (where.empty()) GTEST_SKIP() << "requires RDMAWIRE_TEST_IWARP_ADDRESS, the address of the iWARP device";
    pd = device.protection_domain().value();
    cq = device.completion_queue(64).value();
    memory = pd.region(4096, {"local_write", "remote_write", "remote_read", "remote_atomic"}).value();
  }
  void TearDown() override {
    memory = {};
    cq = {};
    pd = {};
    device = {};
    if (!peer) return;
    peer->close();
    EXPECT_EQ(peer->unattended().count, 0) << to_string(peer->unattended().first.value_or(PeerError{}));
    if (guest != nullptr) {
      for (const auto& complaint : guest->complaints()) ADD_FAILURE() << "the guest's kernel: " << complaint.what;
    }
  }
  QueuePair rc() { return pd.queue_pair({.send_cq = &cq}).value(); }

  lab::Guest* guest = nullptr;  ///< nullptr: external agent
  std::optional<Peer> peer;
  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  Region memory;
  std::string where;  ///< address of the device
};

}  // namespace rdmawire::peer::testing
