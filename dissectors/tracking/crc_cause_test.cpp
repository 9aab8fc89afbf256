#include "dissectors/tracking/crc_cause.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace rdmawire::tracking {
namespace {

using Kind = IcrcCause::Kind;

TEST(CrcCause, EveryKindMapsToACauseOfTheEvent) {
  const auto& allowed = event_rows[static_cast<std::size_t>(EventKind::crc_bad)].causes;
  for (unsigned kind = static_cast<unsigned>(Kind::unknown); kind <= static_cast<unsigned>(Kind::icrc); ++kind)
    for (unsigned fields = 0; fields < 128; ++fields) {
      IcrcCause cause;
      cause.kind = static_cast<Kind>(kind);
      cause.not_masked = static_cast<std::uint8_t>(fields);
      EXPECT_NE(std::find(allowed.begin(), allowed.end(), cause_of(cause)), allowed.end()) << kind << " " << fields;
      EXPECT_NE(to_string(cause.kind), "");
    }
}

TEST(CrcCause, ValuesAndAddresses) {
  IcrcCause cause;
  cause.kind = Kind::address;
  cause.destination_changed = true;
  cause.destination = bytes_of(PortAddress::of_ipv4(0x0a000002));
  EXPECT_EQ(cause_of(cause), Cause::address);
  EXPECT_EQ(restored_value(cause), 0x0a000002U);
  EXPECT_EQ(PortAddress::of_gid(cause.destination.data()), PortAddress::of_ipv4(0x0a000002));
  cause.kind = Kind::not_masked;
  cause.not_masked = icrc_mask::time_to_live | icrc_mask::ip_checksum;
  EXPECT_EQ(cause_of(cause), Cause::ttl_not_masked);
  EXPECT_EQ(restored_value(cause), 6U);
}

}  // namespace
}  // namespace rdmawire::tracking
