#include "dissectors/protocol/icrc_cause.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

using Kind = IcrcCause::Kind;
using Address = std::array<std::uint8_t, 16>;

// ---- CRC-32 arithmetic: polynomials over GF(2) modulo the CRC polynomial. The highest bit is the lowest power.

constexpr std::uint32_t crc32_polynomial = 0xedb88320;
constexpr std::uint32_t one = 0x80000000;

constexpr std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? b >> 1 ^ crc32_polynomial : b >> 1;
  }
  return product;
}
// Returns x^(8n), the factor that appends n zero bytes to a CRC.
constexpr std::uint32_t bytes_later(std::uint32_t n) {
  std::uint32_t result = one, square = one >> 8;
  for (; n != 0; n >>= 1) {
    if (n & 1) result = times(result, square);
    square = times(square, square);
  }
  return result;
}
// Table that reverts the effect of one zero byte on a CRC.
constexpr auto undo = [] {
  std::array<std::uint32_t, 256> t{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ crc32_polynomial : crc >> 1;
    t[crc >> 24] = crc << 8 | b;
  }
  return t;
}();
constexpr std::uint32_t byte_earlier(std::uint32_t crc) { return crc << 8 ^ undo[crc >> 24]; }
static_assert(byte_earlier(times(0x12345678, bytes_later(1))) == 0x12345678);
static_assert(times(bytes_later(1000), bytes_later(24)) == bytes_later(1024));
static_assert(bytes_later(0) == one);

// ---- Search for the cause

constexpr std::uint64_t values = std::uint64_t{1} << 32;  // number of CRC values

std::uint32_t accidents_of(double candidates) {
  return static_cast<std::uint32_t>(std::ceil(candidates / static_cast<double>(values) * 1e9));
}

class Search {
 public:
  Search(const HeaderStack& stack, const CrcCheck& check)
      : stack_(stack),
        packet_(stack.bytes.data()),
        end_(stack.icrc.offset),
        bth_(stack.layers()[stack.transport].offset),
        difference_(__builtin_bswap32(check.value ^ check.computed)) {
    if (stack.network < stack.layers().size()) {
      const Layer& network = stack.layers()[stack.network];
      network_ = network.offset;
      v4_ = network.header == &info<Ipv4>;
      has_network_ = stack.wire != Wire::infiniband || network.header == &info<Grh>;
    }
    if (stack.wire == Wire::roce_v2) udp_ = bth_ - Udp::size;
  }

  IcrcCause run(std::span<const Address> addresses) {
    IcrcCause cause;
    const bool found = not_masked(cause) || port(cause) || address(cause, addresses) || identification(cause) ||
                       pad(cause) || address_and_port(cause, addresses) || few_bits(cause);
    if (!found) cause = {.kind = Kind::unknown};
    return cause;
  }
  bool port(IcrcCause& cause) {
    if (!udp_) return false;
    const std::uint32_t change = change_at(*udp_, difference_);
    if (!fits(change, 2)) return false;
    cause.kind = Kind::source_port;
    restore(cause, *udp_, change);
    cause.original = original(*udp_, 2, change);
    cause.accidents = accidents_of(65536);
    return true;
  }

 private:
  // Returns the change of the ICRC if the bytes at `at` are XORed with `change`. The lowest byte of `change` belongs to
  // the first byte.
  [[nodiscard]] std::uint32_t effect(std::uint32_t at, std::uint32_t change) const {
    return times(change, bytes_later(end_ - at));
  }
  // Returns the XOR mask for the four bytes at `at` that changes the ICRC by `wanted`.
  [[nodiscard]] std::uint32_t change_at(std::uint32_t at, std::uint32_t wanted) const {
    return times(wanted, bytes_earlier(end_ - at));
  }
  static std::uint32_t bytes_earlier(std::uint32_t n) {
    static const std::uint32_t inverse = byte_earlier(one);
    std::uint32_t result = one, square = inverse;
    for (; n != 0; n >>= 1) {
      if (n & 1) result = times(result, square);
      square = times(square, square);
    }
    return result;
  }
  // True if `change` affects only the first `bytes` bytes.
  [[nodiscard]] bool fits(std::uint32_t change, std::uint32_t bytes) const {
    return bytes >= 4 || change >> (8 * bytes) == 0;
  }
  static void restore(IcrcCause& cause, std::uint32_t at, std::uint32_t change) {
    cause.offset = at;
    store_le(cause.change.data(), 4, change);
  }
  // Returns the value of the `bytes` bytes at `at` before `change`, as a big-endian number.
  [[nodiscard]] std::uint32_t original(std::uint32_t at, std::uint32_t bytes, std::uint32_t change) const {
    std::uint32_t value = 0;
    for (std::uint32_t i = 0; i < bytes; ++i) value = value << 8 | (packet_[at + i] ^ (change >> (8 * i) & 0xff));
    return value;
  }

  // Returns the change of the ICRC if the sender does not mask the byte at `at` and the byte had this value.
  [[nodiscard]] std::uint32_t unmasked(std::uint32_t at, std::uint8_t value) const {
    return effect(at, static_cast<std::uint8_t>(~value));
  }
  // Like unmasked(), for each of the 256 values of the byte.
  [[nodiscard]] std::array<std::uint32_t, 256> unmasked_values(std::uint32_t at) const {
    std::array<std::uint32_t, 8> bit_effects;
    const std::uint32_t later = bytes_later(end_ - at);
    for (unsigned bit = 0; bit < 8; ++bit) bit_effects[bit] = times(1U << bit, later);
    std::array<std::uint32_t, 256> all{};
    for (unsigned flipped = 1; flipped < 256; ++flipped) {
      const unsigned low = static_cast<unsigned>(std::countr_zero(flipped));
      all[0xff ^ flipped] = all[0xff ^ (flipped & (flipped - 1))] ^ bit_effects[low];
    }
    return all;
  }

  bool not_masked(IcrcCause& cause) {
    namespace m = icrc_mask;
    // Fields whose effect does not depend on the time to live.
    struct Part {
      std::uint8_t field;
      std::uint32_t effect;
    };
    std::vector<Part> parts{{m::bth_reserved, unmasked(bth_ + 4, packet_[bth_ + 4])}};
    if (udp_)
      parts.push_back(
          {m::udp_checksum, unmasked(*udp_ + 6, packet_[*udp_ + 6]) ^ unmasked(*udp_ + 7, packet_[*udp_ + 7])});
    if (stack_.wire == Wire::infiniband)
      if (const Layer* lrh = stack_.find(info<Lrh>)) {
        // The ICRC covers all headers from the LRH to the BTH, without a gap.
        std::uint32_t all = 0;
        if (has_network_)
          for (std::uint32_t i = 0; i < Lrh::size; ++i) all ^= unmasked(lrh->offset + i, packet_[lrh->offset + i]);
        else
          all = effect(lrh->offset, ~packet_[lrh->offset] & 0xf0U);
        parts.push_back({m::lrh, all});
      }
    const bool ip6 = has_network_ && !v4_;
    if (ip6)
      parts.push_back({m::flow_label, unmasked(network_ + 2, packet_[network_ + 2]) ^
                                          unmasked(network_ + 3, packet_[network_ + 3]) ^
                                          effect(network_ + 1, ~packet_[network_ + 1] & 0x0fU)});
    std::vector<Part> fixed(std::size_t{1} << parts.size(), Part{});
    for (std::size_t set = 1; set < fixed.size(); ++set) {
      const Part& with = parts[static_cast<std::size_t>(std::countr_zero(set))];
      const Part& rest = fixed[set & (set - 1)];
      fixed[set] = {static_cast<std::uint8_t>(with.field | rest.field), with.effect ^ rest.effect};
    }
    std::uint32_t candidates = 0;
    std::optional<IcrcCause> found;
    const auto try_fixed = [&](std::uint8_t fields, std::uint32_t effects, std::uint8_t ttl) {
      for (const Part& part : fixed) {
        if ((part.field | fields) == 0) continue;
        ++candidates;
        if ((part.effect ^ effects) == difference_ && !found) {
          found.emplace();
          found->kind = Kind::not_masked;
          found->not_masked = part.field | fields;
          if (fields & (m::time_to_live | m::ip_checksum)) found->original = ttl;
        }
      }
    };
    try_fixed(0, 0, 0);
    if (has_network_) {
      // ECN is the only variant part of the traffic class.
      const std::uint8_t traffic_class =
          v4_ ? packet_[network_ + 1] : static_cast<std::uint8_t>(load_be<2>(packet_ + network_) >> 4);
      const std::uint32_t ttl_at = network_ + (v4_ ? 8 : 7);
      const std::uint8_t ttl = packet_[ttl_at];
      constexpr std::uint8_t ecn = 3, congestion = 3;
      std::vector<std::uint8_t> classes{traffic_class};
      if ((traffic_class & ecn) == congestion)
        for (std::uint8_t sent : {2, 1}) classes.push_back(static_cast<std::uint8_t>((traffic_class & ~ecn) | sent));
      const auto class_effect = [&](std::uint8_t value) {
        if (v4_) return unmasked(network_ + 1, value);
        return effect(network_, ~(value >> 4) & 0x0fU) ^ effect(network_ + 1, ~(value << 4) & 0xf0U);
      };
      const auto by_ttl = unmasked_values(ttl_at);
      const std::optional<std::uint32_t> rest = v4_ ? checksum_without_them() : std::nullopt;
      std::array<std::uint32_t, 256> by_high{}, by_low{};
      if (v4_) {
        by_high = unmasked_values(network_ + 10);
        by_low = unmasked_values(network_ + 11);
      }
      for (const std::uint8_t sent_class : classes) {
        const std::uint32_t class_part = class_effect(sent_class);
        for (unsigned sent_ttl = ttl; sent_ttl < 256; ++sent_ttl) {
          const bool as_it_stands = sent_ttl == ttl && sent_class == traffic_class;
          std::uint32_t checksum_part = 0;
          if (v4_) {
            const std::uint16_t checksum =
                as_it_stands ? static_cast<std::uint16_t>(load_be<2>(packet_ + network_ + 10))
                : rest       ? checksum_with(sent_class, static_cast<std::uint8_t>(sent_ttl), *rest)
                             : std::uint16_t{0};
            checksum_part = by_high[checksum >> 8] ^ by_low[checksum & 0xff];
          }
          for (std::uint8_t fields = 1; fields < 8; ++fields) {
            if (!v4_ && fields & m::ip_checksum) continue;
            // If the sent value differs from the captured one, the combination must contain a field that depends on it.
            if (sent_ttl != ttl && !(fields & (m::time_to_live | m::ip_checksum))) continue;
            if (sent_class != traffic_class && !(fields & (m::traffic_class | m::ip_checksum))) continue;
            try_fixed(fields,
                      (fields & m::traffic_class ? class_part : 0) ^ (fields & m::time_to_live ? by_ttl[sent_ttl] : 0) ^
                          (fields & m::ip_checksum ? checksum_part : 0),
                      static_cast<std::uint8_t>(sent_ttl));
          }
        }
      }
    }
    if (!found) return false;
    cause = *found;
    cause.accidents = accidents_of(candidates);
    return true;
  }

  // Returns the checksum of the IPv4 header with these values. `rest` is the result of checksum_without_them().
  [[nodiscard]] static std::uint16_t checksum_with(std::uint8_t traffic_class, std::uint8_t ttl, std::uint32_t rest) {
    const std::uint8_t changing[] = {0, traffic_class, ttl, 0};
    return internet_checksum(changing, rest);
  }
  // Returns the sum over the IPv4 header without its traffic class, time to live and checksum, or nullopt if the header
  // is incomplete.
  [[nodiscard]] std::optional<std::uint32_t> checksum_without_them() const {
    const std::uint32_t bytes = (packet_[network_] & 0xfU) * 4U;
    if (bytes < Ipv4::size || network_ + bytes > stack_.bytes.size()) return std::nullopt;
    std::array<std::uint8_t, 60> header;
    std::copy_n(packet_ + network_, bytes, header.begin());
    header[1] = header[8] = header[10] = header[11] = 0;
    return static_cast<std::uint16_t>(~internet_checksum(Bytes(header.data(), bytes)));
  }

  struct Place {
    std::uint32_t source, destination, bytes;
  };
  [[nodiscard]] Place place() const {
    return v4_ ? Place{network_ + 12, network_ + 16, 4} : Place{network_ + 8, network_ + 24, 16};
  }
  [[nodiscard]] Address address_at(std::uint32_t at) const {
    Address address{};
    if (v4_) {
      address[10] = address[11] = 0xff;
      std::copy_n(packet_ + at, 4, address.begin() + 12);
    } else {
      std::copy_n(packet_ + at, 16, address.begin());
    }
    return address;
  }
  // An address field with its current value. Computes how the ICRC changes for another value.
  class AddressField {
   public:
    AddressField(const Search& search, std::uint32_t at) : v4_(search.v4_), now_(search.address_at(at)) {
      for (std::uint32_t word = v4_ ? 3 : 0, byte = at; word < 4; ++word, byte += 4)
        later_[word] = bytes_later(search.end_ - byte);
    }
    // Returns the change of the ICRC if `before` was the original address, or nullopt if it cannot be the original.
    [[nodiscard]] std::optional<std::uint32_t> effect(const Address& before) const {
      if (now_ == before || (v4_ && !std::equal(now_.begin(), now_.begin() + 12, before.begin()))) return std::nullopt;
      std::uint32_t sum = 0;
      for (std::uint32_t word = v4_ ? 3 : 0; word < 4; ++word)
        sum ^=
            times(static_cast<std::uint32_t>(load_le(now_.data() + 4 * word, 4) ^ load_le(before.data() + 4 * word, 4)),
                  later_[word]);
      return sum;
    }

   private:
    bool v4_;
    Address now_;
    std::array<std::uint32_t, 4> later_{};
  };

  bool address(IcrcCause& cause, std::span<const Address> addresses) {
    if (!has_network_) return false;
    addresses = addresses.first(std::min(addresses.size(), most_addresses));
    const Place where = place();
    cause.kind = Kind::address;
    cause.source = address_at(where.source);
    cause.destination = address_at(where.destination);
    struct Candidate {
      std::uint32_t effect;
      const Address* address;
    };
    std::vector<Candidate> sources, destinations;
    const AddressField source_field(*this, where.source), destination_field(*this, where.destination);
    for (const Address& address : addresses) {
      if (const auto e = source_field.effect(address)) sources.push_back({*e, &address});
      if (const auto e = destination_field.effect(address)) destinations.push_back({*e, &address});
    }
    const auto count = static_cast<double>(addresses.size());
    for (const Candidate& c : sources)
      if (c.effect == difference_) {
        cause.source = *c.address;
        cause.source_changed = true;
        cause.accidents = accidents_of(count);
        if (v4_) restore_address(cause, where.source, cause.source);
        return true;
      }
    for (const Candidate& c : destinations)
      if (c.effect == difference_) {
        cause.destination = *c.address;
        cause.destination_changed = true;
        cause.accidents = accidents_of(count);
        if (v4_) restore_address(cause, where.destination, cause.destination);
        return true;
      }
    // Both addresses changed: find a destination that explains the part of the difference that the source does not
    // explain.
    const auto less = [](const Candidate& a, const Candidate& b) { return a.effect < b.effect; };
    std::sort(destinations.begin(), destinations.end(), less);
    for (const Candidate& c : sources) {
      const Candidate rest{difference_ ^ c.effect, nullptr};
      const auto at = std::lower_bound(destinations.begin(), destinations.end(), rest, less);
      if (at == destinations.end() || at->effect != rest.effect) continue;
      cause.source = *c.address;
      cause.destination = *at->address;
      cause.source_changed = cause.destination_changed = true;
      cause.accidents = accidents_of(count * count);
      return true;
    }
    if (v4_)
      for (const bool source : {true, false}) {
        const std::uint32_t at = (source ? where.source : where.destination) + 3;
        const std::uint32_t change = change_at(at, difference_);
        if (!fits(change, 1)) continue;
        restore(cause, at, change);
        (source ? cause.source : cause.destination)[15] ^= static_cast<std::uint8_t>(change);
        (source ? cause.source_changed : cause.destination_changed) = true;
        cause.accidents = accidents_of(2 * 256);
        return true;
      }
    cause = {};
    return false;
  }
  void restore_address(IcrcCause& cause, std::uint32_t at, const Address& before) const {
    restore(cause, at, static_cast<std::uint32_t>(load_le(packet_ + at, 4) ^ load_le(before.data() + 12, 4)));
  }

  // True if a translation of the source address and the source port (NAPT) explains the difference. Always false for
  // more than four candidate addresses.
  bool address_and_port(IcrcCause& cause, std::span<const Address> addresses) {
    constexpr std::size_t few = 4;
    constexpr std::uint32_t dynamic = 0xc000;  // RFC 6335, 6: dynamic ports, from which senders choose source ports
    if (!udp_ || !has_network_ || addresses.size() > few) return false;
    const Place where = place();
    const AddressField source_field(*this, where.source);
    for (const Address& address : addresses) {
      const auto e = source_field.effect(address);
      if (!e) continue;
      const std::uint32_t change = change_at(*udp_, difference_ ^ *e);
      if (!fits(change, 2) || change == 0 || original(*udp_, 2, change) < dynamic) continue;
      cause.kind = Kind::address_and_port;
      cause.source = address;
      cause.destination = address_at(where.destination);
      cause.source_changed = true;
      restore(cause, *udp_, change);
      cause.original = original(*udp_, 2, change);
      cause.accidents = accidents_of(static_cast<double>(addresses.size()) * (65536 - dynamic));
      return true;
    }
    return false;
  }

  bool identification(IcrcCause& cause) {
    if (stack_.wire != Wire::roce_v2 || !v4_) return false;
    const std::uint32_t at = network_ + 4, change = change_at(at, difference_);
    if (!fits(change, 2)) return false;
    cause.kind = Kind::ip_identification;
    restore(cause, at, change);
    cause.original = original(at, 2, change);
    cause.accidents = accidents_of(65536);
    return true;
  }

  bool pad(IcrcCause& cause) {
    const std::uint32_t bytes = stack_.pad.length;
    if (bytes == 0 || bytes > 3 || stack_.pad.end() != end_) return false;
    const std::uint32_t change = change_at(stack_.pad.offset, difference_);
    if (!fits(change, bytes)) return false;
    const std::uint32_t before = original(stack_.pad.offset, bytes, change);
    // Three arbitrary pad bytes explain one of 256 random ICRCs by accident, so three pad bytes must be equal.
    const bool same = before == (before & 0xff) * (0x010101U >> (8 * (3 - bytes)));
    if (bytes == 3 && !same) return false;
    cause.kind = Kind::pad;
    restore(cause, stack_.pad.offset, change);
    cause.bits = 0;
    cause.original = before;
    cause.accidents = accidents_of(same ? 256 : 1U << (8 * bytes));
    return true;
  }

  // True if the ICRC covers all changed bytes without masking.
  [[nodiscard]] bool seen(std::uint32_t at, std::uint32_t change) const {
    for (std::uint32_t i = 0; i < 4; ++i) {
      if ((change >> (8 * i) & 0xff) == 0) continue;
      const std::uint32_t byte = at + i;
      if (byte == bth_ + 4 || (udp_ && (byte == *udp_ + 6 || byte == *udp_ + 7))) return false;
      if (!has_network_ || byte >= network_ + 12) continue;
      if (v4_ ? byte == network_ + 1 || byte == network_ + 8 || byte == network_ + 10 || byte == network_ + 11
              : byte <= network_ + 3 || byte == network_ + 7)
        return false;
    }
    return true;
  }

  // True if a change of a few adjacent bits explains the difference. For each offset, computes the change of the four
  // bytes that explains the ICRC. The change is accepted if it is short and starts in the first byte. Long changes
  // would match by accident, because there are many offsets.
  bool few_bits(IcrcCause& cause) {
    struct Best {
      std::uint32_t bits = 33, at = 0, change = 0;
    } header, payload;
    // `begin` is the offset of the first byte that the ICRC covers. A change that starts in the payload counts as
    // damage of the payload.
    const std::uint32_t begin = has_network_ && stack_.wire != Wire::infiniband ? network_
                                : stack_.wire == Wire::infiniband               ? lrh_offset()
                                                                                : bth_;
    const std::uint32_t payload_at = stack_.payload.length ? stack_.payload.offset : end_;
    std::uint32_t change = difference_;
    for (std::uint32_t at = end_; at-- > begin;) {
      change = byte_earlier(change);
      if ((change & 0xff) == 0 || !fits(change, end_ - at)) continue;
      const auto bits = static_cast<std::uint32_t>(std::bit_width(change) - std::countr_zero(change));
      Best& best = at < payload_at ? header : payload;
      if (bits < best.bits && seen(at, change)) best = {bits, at, change};
    }
    const auto candidates = [](std::uint32_t bytes, std::uint32_t bits) {
      return 8.0 * bytes * std::ldexp(1.0, static_cast<int>(bits) - 1);
    };
    constexpr double strict = 65536, loose = static_cast<double>(values) / 512;
    const double by_header = candidates(payload_at - begin, header.bits),
                 by_payload = candidates(std::max(1U, end_ - payload_at), payload.bits);
    const auto icrc_bits = static_cast<std::uint32_t>(std::bit_width(difference_) - std::countr_zero(difference_));
    // Damage of the ICRC itself is the least likely, so it must be very short.
    constexpr double strictest = 4096;
    const double by_icrc = candidates(4, icrc_bits);
    const double least = std::min({by_header, by_payload, by_icrc});
    if (by_icrc == least && by_icrc <= strictest) {
      cause.kind = Kind::icrc;
      const std::uint32_t unchanged = static_cast<std::uint32_t>(std::countr_zero(difference_)) / 8;
      restore(cause, end_ + unchanged, difference_ >> (8 * unchanged));
      cause.bits = icrc_bits;
    } else if (by_header == least && by_header <= strict) {
      cause.kind = Kind::header;
      restore(cause, header.at, header.change);
      cause.bits = header.bits;
    } else if (by_payload <= loose) {
      cause.kind = Kind::payload;
      restore(cause, payload.at, payload.change);
      cause.bits = payload.bits;
      cause.accidents = accidents_of(by_payload);
      return true;
    } else {
      return false;
    }
    cause.accidents = accidents_of(least);
    return true;
  }
  [[nodiscard]] std::uint32_t lrh_offset() const {
    if (has_network_) return network_;  // with a GRH, the whole LRH is masked
    const Layer* lrh = stack_.find(info<Lrh>);
    return lrh ? lrh->offset : bth_;
  }

  static constexpr std::size_t most_addresses = 256;
  const HeaderStack& stack_;
  const std::uint8_t* packet_;
  std::uint32_t end_, bth_;
  std::uint32_t difference_;  ///< XOR of the CRC values (byte-swapped compared with the wire)
  std::uint32_t network_ = 0;
  std::optional<std::uint32_t> udp_;
  bool v4_ = false, has_network_ = false;
};

}  // namespace

std::string_view to_string(IcrcCause::Kind kind) {
  switch (kind) {
    case Kind::none: return "none";
    case Kind::unknown: return "unknown";
    case Kind::zero: return "zero";
    case Kind::byte_order: return "byte order";
    case Kind::not_masked: return "not masked";
    case Kind::source_port: return "source port";
    case Kind::address: return "address";
    case Kind::address_and_port: return "address and port";
    case Kind::ip_identification: return "IP identification";
    case Kind::pad: return "pad";
    case Kind::header: return "header";
    case Kind::payload: return "payload";
    case Kind::icrc: return "ICRC";
  }
  return {};
}

IcrcCause explain_icrc(const HeaderStack& stack, std::span<const Address> addresses) {
  const CrcCheck check = check_icrc(stack);
  if (check.status != CrcCheck::Status::bad) return {};
  if (check.value == 0) return {.kind = Kind::zero, .accidents = 1};
  if (check.value == __builtin_bswap32(check.computed)) return {.kind = Kind::byte_order, .accidents = 1};
  return Search(stack, check).run(addresses);
}

std::optional<std::uint16_t> source_port_for_icrc(const HeaderStack& stack) {
  const CrcCheck check = check_icrc(stack);
  IcrcCause cause;
  if (check.status != CrcCheck::Status::bad || !Search(stack, check).port(cause)) return std::nullopt;
  return static_cast<std::uint16_t>(cause.original);
}

namespace {

std::string text_of(const Address& address) {
  if (load_be<8>(address.data()) == 0 && load_be<4>(address.data() + 8) == 0xffff)
    return fmt::format("{}.{}.{}.{}", address[12], address[13], address[14], address[15]);
  char text[INET6_ADDRSTRLEN] = "";
  return inet_ntop(AF_INET6, address.data(), text, sizeof text);
}

std::string unmasked_fields(const IcrcCause& cause) {
  constexpr std::pair<std::uint8_t, std::string_view> names[] = {
      {icrc_mask::traffic_class, "traffic class"},
      {icrc_mask::time_to_live, "time to live"},
      {icrc_mask::ip_checksum, "IP checksum"},
      {icrc_mask::udp_checksum, "UDP checksum"},
      {icrc_mask::flow_label, "flow label"},
      {icrc_mask::bth_reserved, "the BTH's fifth byte"},
      {icrc_mask::lrh, "LRH"},
  };
  std::string all;
  for (const auto& [bit, name] : names)
    if (cause.not_masked & bit) all.append(all.empty() ? "" : ", ").append(name);
  return all;
}

}  // namespace

std::string describe(const IcrcCause& cause) {
  switch (cause.kind) {
    case Kind::none: return "the ICRC is valid";
    case Kind::unknown: return "no single change explains the ICRC";
    case Kind::zero: return "the ICRC is zero: it was not computed, or the packet was captured before its computation";
    case Kind::byte_order: return "the ICRC is correct, but byte-swapped";
    case Kind::not_masked:
      return fmt::format(
          "the ICRC is valid if variant fields ({}) are included unmasked: its sender did not "
          "mask them",
          unmasked_fields(cause));
    case Kind::source_port:
      return fmt::format("the ICRC is valid with UDP source port {}: a device on the path modified it", cause.original);
    case Kind::address: {
      std::string what;
      if (cause.source_changed) what = "source address " + text_of(cause.source);
      if (cause.destination_changed)
        what.append(what.empty() ? "" : " and ").append("destination address ").append(text_of(cause.destination));
      return fmt::format("the ICRC is valid with {}: a device on the path modified {}", what,
                         cause.source_changed && cause.destination_changed ? "them" : "it");
    }
    case Kind::address_and_port:
      return fmt::format(
          "the ICRC is valid with source address {} and UDP source port {}: a device on the path "
          "modified them",
          text_of(cause.source), cause.original);
    case Kind::ip_identification:
      return fmt::format(
          "the ICRC is valid with IP identification 0x{:04x}: it was modified after the computation"
          "",
          cause.original);
    case Kind::pad: return "the ICRC is valid with other pad bytes: they were modified after the computation";
    case Kind::header:
    case Kind::payload:
    case Kind::icrc:
      return fmt::format("the ICRC is valid if {} bit{} from byte {} on {} changed: damage in the {}", cause.bits,
                         cause.bits == 1 ? "" : "s", cause.offset, cause.bits == 1 ? "is" : "are",
                         cause.kind == Kind::icrc     ? "ICRC itself"
                         : cause.kind == Kind::header ? "headers"
                                                      : "payload");
  }
  return {};
}

}  // namespace rdmawire
