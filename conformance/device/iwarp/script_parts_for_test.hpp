#pragma once
/// For tests only: the device under test, and a tester that sends literal bytes to it.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "conformance/device/iwarp/fault_script_for_test.hpp"
#include "conformance/device/iwarp/stream_link_for_test.hpp"

namespace rdmawire::endpoint::testing {

using ByteVector = std::vector<std::uint8_t>;

inline machines::MpaSettings script_settings(int revision = 2) {
  machines::MpaSettings mpa{.revision = static_cast<std::uint8_t>(revision)};
  mpa.ird = mpa.ord = 2;
  mpa.most_ird = 4;
  return mpa;
}

/// Return an MPA frame with these flags and revision. `announced`: PD_Length. Negative: length of the private data.
inline ByteVector setup_frame(std::string_view key, std::uint8_t flags, std::uint8_t revision,
                              const ByteVector& private_data = {}, int announced = -1) {
  ByteVector frame(key.begin(), key.end());
  const std::size_t length = announced < 0 ? private_data.size() : static_cast<std::size_t>(announced);
  frame.insert(frame.end(),
               {flags, revision, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)});
  frame.insert(frame.end(), private_data.begin(), private_data.end());
  return frame;
}
inline ByteVector request_frame(std::uint8_t flags, std::uint8_t revision, const ByteVector& data = {},
                                int announced = -1) {
  return setup_frame(mpa::request_key, flags, revision, data, announced);
}
inline ByteVector reply_frame(std::uint8_t flags, std::uint8_t revision, const ByteVector& data = {},
                              int announced = -1) {
  return setup_frame(mpa::reply_key, flags, revision, data, announced);
}

inline void append_number(ByteVector& to, std::uint64_t value, unsigned bytes) {
  to.resize(to.size() + bytes);
  store_be(to.data() + to.size() - bytes, bytes, value);
}
/// Return an untagged segment with DDP and RDMAP version 1.
inline ByteVector untagged(std::uint8_t opcode, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo,
                           const ByteVector& payload = {}, bool last = true, std::uint32_t invalidate = 0) {
  ByteVector segment{static_cast<std::uint8_t>(last ? 0x41 : 0x01), static_cast<std::uint8_t>(0x40 | opcode)};
  for (const std::uint32_t word : {invalidate, qn, msn, mo}) append_number(segment, word, 4);
  segment.insert(segment.end(), payload.begin(), payload.end());
  return segment;
}
inline ByteVector tagged(std::uint8_t opcode, std::uint32_t stag, std::uint64_t to, const ByteVector& payload,
                         bool last = true) {
  ByteVector segment{static_cast<std::uint8_t>(last ? 0xc1 : 0x81), static_cast<std::uint8_t>(0x40 | opcode)};
  append_number(segment, stag, 4);
  append_number(segment, to, 8);
  segment.insert(segment.end(), payload.begin(), payload.end());
  return segment;
}
inline ByteVector read_header(std::uint32_t size, std::uint32_t stag, std::uint64_t to) {
  ByteVector header;
  append_number(header, 0x5157, 4);
  append_number(header, 0x1000, 8);
  append_number(header, size, 4);
  append_number(header, stag, 4);
  append_number(header, to, 8);
  return header;
}
struct AtomicWords {
  std::uint64_t data = 0, mask = 0, compare = 0, compare_mask = ~0ULL;
};
inline ByteVector atomic_header(std::uint32_t operation, std::uint32_t stag, std::uint64_t to, AtomicWords words) {
  ByteVector header;
  append_number(header, operation, 4);
  append_number(header, 0x77, 4);
  append_number(header, stag, 4);
  for (const std::uint64_t word : {to, words.data, words.mask, words.compare, words.compare_mask})
    append_number(header, word, 8);
  return header;
}
inline ByteVector some(std::size_t count, std::uint8_t value = 0x5a) { return ByteVector(count, value); }

/// Append completions, events and memory of an application to `verbs`.
inline void note_consumer(Consumer& consumer, std::string& verbs) {
  for (const auto& one : consumer.poll())
    verbs += fmt::format("completion {} {} {} {} {:x} {:x}\n", one.id, static_cast<int>(one.status),
                         static_cast<int>(one.opcode), one.bytes, one.immediate, one.immediate_data);
  for (const auto& event : consumer.events())
    verbs += fmt::format("event {} {} {} {} {} {}.{}.{}\n", static_cast<int>(event.type), event.private_data.size(),
                         event.ird, event.ord, event.revision, event.error.layer, event.error.type, event.error.code);
  while (const auto event = consumer.rnic.next_event())
    verbs += fmt::format("async {} {}\n", static_cast<int>(event->type), event->object);
  while (const auto cq = consumer.rnic.next_notification()) verbs += fmt::format("notified {}\n", *cq);
  verbs += fmt::format("memory {:08x}\n", crc32c(consumer.at(0, Consumer::bytes)));
}

/// The device under test, as responder or initiator, and its tester.
class ManualPeer {
 public:
  ManualPeer(std::string_view name, std::optional<Fault> fault, Trace& trace,
             const machines::MpaSettings& mpa = script_settings(1), RnicOptions rnic = {})
      : dut(mpa, rnic, 1460, fault), trace_(trace) {
    for (std::string* text : {&trace_.bytes, &trace_.timing, &trace_.verbs}) *text += fmt::format("-- {}\n", name);
    dut.fill(0, "initial content of the memory of the endpoint");
    if (trace_.wire) trace_.wire->connection();
  }
  ~ManualPeer() { record(); }
  ManualPeer(const ManualPeer&) = delete;
  ManualPeer& operator=(const ManualPeer&) = delete;

  Consumer dut;
  std::int64_t now = 0;

  /// Collect the device's output and record all effects.
  void record(std::size_t most = 64 << 10) {
    for (;;) {
      const Output output = dut.end->take(now, most);
      for (const auto& segment : output.segments) {
        for (const std::uint8_t byte : segment) trace_.bytes += fmt::format("{:02x}", byte);
        trace_.bytes += '\n';
        if (trace_.wire) trace_.wire->segment(true, segment);
      }
      if (trace_.wire && output.fin) trace_.wire->fin(true);
      if (trace_.wire && output.reset) trace_.wire->reset(true);
      if (output.fin) trace_.bytes += "FIN\n";
      if (output.reset) trace_.bytes += "RST\n";
      if (!output.empty()) trace_.timing += fmt::format("{}\n", now);
      if (output.empty() || most < 4096) break;
    }
    note_consumer(dut, trace_.verbs);
  }
  /// Deliver bytes to the device under test without collecting its output.
  void deliver(const ByteVector& bytes) {
    if (trace_.wire) trace_.wire->segment(false, bytes);
    dut.end->received(bytes, ++now);
  }
  void send_bytes(const ByteVector& bytes) {
    deliver(bytes);
    record();
  }
  void wait(std::int64_t nanoseconds) {
    now += nanoseconds;
    trace_.timing += fmt::format("wakes {}\n", dut.end->wakes());
    if (dut.end->wakes() <= now) dut.end->woken(now);
    record();
  }
  void fin() {
    if (trace_.wire) trace_.wire->fin(false);
    dut.end->peer_closed(++now);
    record();
  }

  /// Let the device under test accept (or reject) `request`.
  void accept_request(const ByteVector& request, bool accepts = true) {
    (void)dut.end->await(now);
    deliver(request);
    note_consumer(dut, trace_.verbs);
    if (accepts)
      (void)dut.end->accept(some(3));
    else
      (void)dut.end->reject(some(3));
    record();
    begin();
  }
  /// Let the device under test connect, and send `reply`.
  void initiates(const ByteVector& reply) {
    (void)dut.end->connect(some(2), now);
    record();
    send_bytes(reply);
    begin();
  }
  /// Post four receives of 64 bytes and deliver a first Send, after which both sides may send.
  void operates(const ByteVector& request = request_frame(0x40, 1)) {
    accept_request(request);
    for (std::uint64_t id = 1; id <= 4; ++id) dut.receive(id, 1000 * id, 64);
    send_bytes(fpdu(untagged(3, 0, 1, 0, some(5))));
  }

  ByteVector fpdu(const ByteVector& ulpdu) {
    ByteVector bytes;
    (void)sender_.send(bytes, ulpdu);
    return bytes;
  }
  /// Return an FPDU after `change` has modified it. The CRC is recomputed unless `keeps_crc` is set.
  template <class Change>
  ByteVector changed_fpdu(const ByteVector& ulpdu, bool keeps_crc, const Change& change) {
    ByteVector bytes = fpdu(ulpdu);
    change(bytes);
    if (!keeps_crc) store_be(bytes.data() + bytes.size() - 4, 4, compute_mpa_crc(Bytes(bytes).first(bytes.size() - 4)));
    return bytes;
  }
  void send_ulpdu(const ByteVector& ulpdu) { send_bytes(fpdu(ulpdu)); }

 private:
  void begin() {
    sender_ = MpaSender({.markers = dut.end->agreement().receive_markers, .crc = dut.end->agreement().crc});
  }
  Trace& trace_;
  MpaSender sender_{{}};
};

}  // namespace rdmawire::endpoint::testing
