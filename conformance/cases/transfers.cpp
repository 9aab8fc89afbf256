/// Complete messages in rows of parameters: path MTU, length, first PSN, and number of other queue pairs. See
/// parameters.hpp. Clauses: IBTA vol 1, 9.7.2 (PSNs), 9.7.5 and C9-148 (acknowledgements), 9.4.4 (READ).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>

#include "conformance/cases/case_parameters.hpp"
#include "conformance/cases/files.hpp"
#include "conformance/cases/parameters.hpp"

namespace rdmawire::conformance::transfers_cases {
namespace {

constexpr std::uint8_t patient = 20;  ///< a timeout of 4.3 s, longer than the case
constexpr std::uint64_t offset = 64;  ///< of the message in the region
constexpr char untouched = '\x44';    ///< the bytes around it

/// One row: the parameters of a transfer.
struct Transfer {
  std::uint32_t mtu = 0, bytes = 0;
  bool wraps = false;           ///< the PSN wraps inside a message of several packets, otherwise after it
  std::uint32_t first_psn = 0;  ///< unless it wraps
  std::uint32_t others = 0;     ///< other queue pairs, which transfer messages at the same time

  [[nodiscard]] std::int32_t packets() const {
    return static_cast<std::int32_t>(std::max<std::uint32_t>(1, (bytes + mtu - 1) / mtu));
  }
  [[nodiscard]] std::int64_t psn_of_first() const {
    return wraps ? (std::int64_t{1} << 24) - std::max(1, packets() / 2) : first_psn;
  }
  [[nodiscard]] Position position(std::int32_t packet) const {
    if (packets() == 1) return Position::only;
    return packet == 0 ? Position::first : packet == packets() - 1 ? Position::last : Position::middle;
  }
  [[nodiscard]] std::string content() const { return pattern_bytes(bytes, 3); }
  [[nodiscard]] std::string piece(std::int32_t packet) const {
    return content().substr(static_cast<std::size_t>(packet) * mtu, mtu);
  }
};

// ---- the parameters and their values

constexpr std::array<std::uint32_t, 5> mtus{256, 512, 1024, 2048, 4096};
/// Every port on an Ethernet with MTU 1500 supports this number of the first MTUs.
constexpr std::size_t usual_mtus = 3;
struct Length {
  const char* text;
  std::uint32_t mtus;  ///< the length is this number of MTUs, plus `more`
  std::int32_t more;
};
constexpr std::array lengths{Length{"0 bytes", 0, 0},        Length{"1 byte", 0, 1},
                             Length{"MTU - 1 bytes", 1, -1}, Length{"MTU bytes", 1, 0},
                             Length{"MTU + 1 bytes", 1, 1},  Length{"2 MTU bytes", 2, 0},
                             Length{"5 MTU + 3 bytes", 5, 3}};
struct FirstPsn {
  const char* text;
  bool wraps;
  std::uint32_t value;
};
constexpr std::array first_psns{FirstPsn{"PSN 0", false, 0}, FirstPsn{"PSN 1", false, 1},
                                FirstPsn{"PSN 2^23", false, 1U << 23}, FirstPsn{"PSN wraps", true, 0}};
constexpr std::array<std::uint32_t, 3> others{0, 1, 3};

/// All pairs of values. The first rows contain all pairs without the larger MTUs.
std::vector<ParameterRow> rows() {
  CoveringOptions options{.values = {mtus.size(), lengths.size(), first_psns.size(), others.size()}};
  options.allowed = [](const ParameterRow& row) { return row[0] == unset_parameter || row[0] < usual_mtus; };
  options.given = covering_rows(options);
  options.allowed = {};
  return covering_rows(options);
}
Transfer transfer_of(const ParameterRow& row) {
  const std::uint32_t mtu = mtus[row[0]];
  const Length& length = lengths[row[1]];
  const FirstPsn& first = first_psns[row[2]];
  return {.mtu = mtu,
          .bytes = length.mtus * mtu + static_cast<std::uint32_t>(length.more),
          .wraps = first.wraps,
          .first_psn = first.value,
          .others = others[row[3]]};
}
std::string text_of(const ParameterRow& row) {
  const std::uint32_t count = others[row[3]];
  return fmt::format("MTU {}, {}, {}, {} other QP{}", mtus[row[0]], lengths[row[1]].text, first_psns[row[2]].text,
                     count, count == 1 ? "" : "s");
}

std::vector<CaseParameter> parameters_of(const char* operation, const ParameterRow& row) {
  return {{"operation", operation},
          {"path MTU", fmt::to_string(mtus[row[0]])},
          {"length", lengths[row[1]].text},
          {"packets", transfer_of(row).packets() == 1 ? "one" : "several"},
          {"first PSN", std::string(first_psns[row[2]].text).substr(4)},
          {"other QPs", fmt::to_string(others[row[3]])}};
}

// ---- the steps

/// Skips frames to other queue pairs.
Expectation to(const Connected& qp, const Expectation& expected) {
  return {expected.text(), [qpn = qp.tester_qpn, expected](const Seen& seen) {
            return seen.dest_qp == qpn ? expected.judge(seen) : Match::skip;
          }};
}

/// The connection that the row tests, and the other connections.
class Scene {
 public:
  Scene(Bench& bench, const Transfer& row) : bench_(bench) {
    const std::uint32_t port_mtu = bench.device().device->port().active_mtu;
    if (row.mtu > port_mtu) end_case(Verdict::unsupported, fmt::format("the MTU of the port is {}", port_mtu));
    for (std::uint32_t i = 0; i < row.others; ++i) others_.push_back(&bench.rc({.receives = 4}));
    qp_ = &bench.rc({.mtu = row.mtu,
                     .receives = 2,
                     .receive_bytes = std::max<std::uint32_t>(row.bytes, 64),
                     .region_bytes = row.bytes + 2 * offset,
                     .timeout = patient,
                     .first_psn = row.psn_of_first(),
                     .device_psn = row.psn_of_first()});
    others_transfer();
  }
  Connected& qp() { return *qp_; }
  /// Each of the other queue pairs receives a message.
  void others_transfer() {
    for (Connected* other : others_) {
      bench_ >> other->send_only(psn(transferred_), pattern_bytes(20));
      bench_ << to(*other, ack(psn(transferred_)).msn(static_cast<std::uint32_t>(transferred_) + 1));
      other->completes(static_cast<std::uint64_t>(transferred_));
    }
    ++transferred_;
  }
  /// The next request of the tester has this PSN and is the n-th message.
  void goes_on(psn at, std::uint32_t messages, std::uint64_t receive) {
    const std::string payload = pattern_bytes(24, 0x51);
    bench_ >> qp_->send_only(at, payload);
    bench_ << to(*qp_, ack(at).msn(messages));
    qp_->completes(receive);
    qp_->received(receive, payload);
    others_transfer();
  }

 private:
  Bench& bench_;
  std::vector<Connected*> others_;
  Connected* qp_ = nullptr;
  std::int32_t transferred_ = 0;
};

/// Sends the packets of a message. Only the last one requests an acknowledgement.
void send_packets(Bench& bench, Scene& scene, const Transfer& row, Operation operation, const Operands& operands) {
  for (std::int32_t i = 0; i < row.packets(); ++i) {
    Operands of_packet = operands;
    of_packet.payload = row.piece(i);
    const Stimulus packet = scene.qp().request(operation, row.position(i), psn(i), of_packet);
    const bool last = i + 1 == row.packets();
    bench >> (last ? packet : packet.without_ack_request());
    if (i == 0 && !last) scene.others_transfer();
  }
}

// One acknowledgement for the PSN of the last packet.
void tester_sends(Bench& bench, const Transfer& row) {
  Scene scene(bench, row);
  Connected& qp = scene.qp();
  send_packets(bench, scene, row, Operation::send, {});
  bench << to(qp, acknowledged(psn(row.packets() - 1))).msn(1) << silence();
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.byte_len == row.bytes, fmt::format("byte_len {}", row.bytes),
                fmt::format("byte_len {}", completion.byte_len));
  qp.received(0, row.content());
  scene.goes_on(psn(row.packets()), 2, 1);
}
void tester_writes(Bench& bench, const Transfer& row) {
  Scene scene(bench, row);
  Connected& qp = scene.qp();
  qp.fill(0, std::string(row.bytes + 2 * offset, untouched));
  send_packets(bench, scene, row, Operation::rdma_write, qp.at(offset, row.bytes));
  bench << to(qp, acknowledged(psn(row.packets() - 1))).msn(1) << silence();
  qp.holds(0, std::string(offset, untouched) + row.content() + std::string(offset, untouched));
  scene.goes_on(psn(row.packets()), 2, 0);
}

// The response has the PSNs of the request, and its last packet counts the READ.
void tester_reads(Bench& bench, const Transfer& row) {
  Scene scene(bench, row);
  Connected& qp = scene.qp();
  qp.fill(offset, row.content());
  bench >> qp.read(psn(+0), qp.at(offset, row.bytes));
  for (std::int32_t i = 0; i < row.packets(); ++i) {
    const Expectation packet = read_response(row.position(i), psn(i)).carrying(row.piece(i));
    bench << to(qp, i + 1 == row.packets() ? packet.msn(1) : packet);
  }
  scene.goes_on(psn(row.packets()), 2, 0);
}

// Requests of the device: full packets, consecutive PSNs, and a completion with the acknowledgement.
void device_transfers(Bench& bench, const Transfer& row, Operation operation) {
  Scene scene(bench, row);
  Connected& qp = scene.qp();
  qp.fill(offset, row.content());
  const Message message{.length = row.bytes, .offset = offset};
  operation == Operation::send ? qp.device_sends(7, message) : qp.device_writes(7, message);
  for (std::int32_t i = 0; i < row.packets(); ++i)
    bench << to(qp, request(operation, row.position(i), psn(i)).carrying(row.piece(i)));
  scene.others_transfer();
  bench >> qp.ack(psn(row.packets() - 1), 1);
  qp.completes(7);
  qp.device_sends(8);
  bench << to(qp, a_send(psn(row.packets())));
  bench >> qp.ack(psn(row.packets()), 2);
  qp.completes(8);
}
void device_sends(Bench& bench, const Transfer& row) { device_transfers(bench, row, Operation::send); }
void device_writes(Bench& bench, const Transfer& row) { device_transfers(bench, row, Operation::rdma_write); }
void device_reads(Bench& bench, const Transfer& row) {
  Scene scene(bench, row);
  Connected& qp = scene.qp();
  qp.fill(0, std::string(row.bytes + 2 * offset, untouched));
  qp.device_reads(7, {.length = row.bytes, .offset = offset});
  bench << to(qp, a_read(psn(+0), row.bytes, tester_memory));
  scene.others_transfer();
  for (std::int32_t i = 0; i < row.packets(); ++i) bench >> qp.read_response(row.position(i), psn(i), 1, row.piece(i));
  qp.completes(7);
  qp.holds(0, std::string(offset, untouched) + row.content() + std::string(offset, untouched));
  qp.device_sends(8);
  bench << to(qp, a_send(psn(row.packets())));
  bench >> qp.ack(psn(row.packets()), 2);
  qp.completes(8);
}

// ---- the cases

struct Declared {
  RuleId rule;
  const char* name;
  Role role;
  void (*run)(Bench& bench, const Transfer& row);
};
constexpr Declared declared[] = {
    {"rc.responder.ack.asked-for-once", "SEND", Role::responder, tester_sends},
    {"rc.responder.ack.asked-for-once", "WRITE", Role::responder, tester_writes},
    {"rc.responder.msn.in-read-response", "READ", Role::responder, tester_reads},
    {"rc.requester.psn.increments", "SEND", Role::requester, device_sends},
    {"rc.requester.psn.increments", "WRITE", Role::requester, device_writes},
    {"rc.requester.psn.increments", "READ", Role::requester, device_reads},
};

class TransferScript final : public Script {
 public:
  TransferScript(const Declared& of, const ParameterRow& row)
      : variant_(fmt::format("{}, {}", of.name, text_of(row))), run_(of.run), row_(transfer_of(row)) {}
  [[nodiscard]] const std::string& variant() const { return variant_; }
  void run(Bench& bench) const override { run_(bench, row_); }

 private:
  std::string variant_;
  void (*run_)(Bench& bench, const Transfer& row);
  Transfer row_;
};

}  // namespace

std::span<const Case> all() {
  static std::deque<TransferScript> scripts;  // at fixed addresses
  static const std::vector<Case> list = [] {
    std::vector<Case> cases;
    const std::vector<ParameterRow> all_rows = rows();
    for (const Declared& one : declared)
      for (const ParameterRow& row : all_rows) {
        const TransferScript& script = scripts.emplace_back(one, row);
        cases.push_back({.rule = one.rule, .variant = script.variant(), .role = one.role, .run = script});
      }
    return cases;
  }();
  return list;
}

std::vector<CaseParameter> parameters_of_row(std::size_t index) {
  static const std::vector<ParameterRow> all_rows = rows();
  return parameters_of(declared[index / all_rows.size()].name, all_rows[index % all_rows.size()]);
}

}  // namespace rdmawire::conformance::transfers_cases
