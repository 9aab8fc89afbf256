#include "dissectors/tracking/subnet.hpp"

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/pm.hpp"
#include "dissectors/protocol/sa.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking {
namespace {

constexpr std::uint16_t path_record_id = 0x35, member_record_id = 0x38;

void read(MulticastMembership& out, View<McMemberRecord> record) {
  out.group = PortAddress::of_gid(record.get<"mgid">().data());
  out.port = PortAddress::of_gid(record.get<"port_gid">().data());
  out.mlid = record.get<"mlid">();
  out.qkey = record.get<"qkey">();
  out.pkey = record.get<"pkey">();
  out.mtu = bytes_of_mtu(record.get<"mtu">());
  out.join_state = record.get<"join_state">();
}

void read(PathGiven& out, View<PathRecord> record) {
  out.from = PortAddress::of_gid(record.get<"sgid">().data());
  out.to = PortAddress::of_gid(record.get<"dgid">().data());
  out.from_lid = record.get<"slid">();
  out.to_lid = record.get<"dlid">();
  out.pkey = record.get<"pkey">();
  out.service_level = record.get<"sl">();
  out.mtu = bytes_of_mtu(record.get<"mtu">());
  out.rate = record.get<"rate">();
  out.life_time = static_cast<std::int64_t>(std::min<std::uint64_t>(record.get<"packet_life_time.limit">(), INT64_MAX));
}

}  // namespace

Subnet::Subnet(ManagementSink& sink, std::uint32_t capacity) : sink_(sink), questions_(capacity) {}

void Subnet::add(const Packet& packet) {
  const HeaderStack& stack = packet.stack;
  const auto layers = stack.layers();
  if (stack.wire != Wire::infiniband || stack.transport >= layers.size()) return;
  const Layer& transport = layers[stack.transport];
  if (transport.header != &info<Bth>) return;
  if (View<Bth>(stack.bytes.data() + transport.offset).get<"dest_qp">() != 1) return;
  const auto mad = stack.get<Mad>();
  const auto ports = ports_of(stack);
  if (!mad || !ports || packet.icrc.status == CrcCheck::Status::bad) return;
  if (mad->get<"class">() == management_class::subnet_administration)
    administration(packet, *ports);
  else if (mad->get<"class">() == management_class::performance && mad->get<"method">() == mad_method::get_response)
    performance(packet, *ports);
}

void Subnet::administration(const Packet& packet, const FlowKey& ports) {
  const HeaderStack& stack = packet.stack;
  const View<Mad> mad = *stack.get<Mad>();
  const std::uint8_t method = mad.get<"method">();
  const std::uint64_t transaction = mad.get<"transaction_id">();
  const std::uint16_t attribute = mad.get<"attribute_id">();

  if (method == mad_method::get || method == mad_method::get_table || method == mad_method::set ||
      method == mad_method::erase) {
    Question q;
    const auto record = stack.get<McMemberRecord>();
    const auto path = stack.get<PathRecord>();
    q.multicast = attribute == member_record_id && record && (method == mad_method::set || method == mad_method::erase);
    if (!q.multicast && !(attribute == path_record_id && path)) return;
    const FlowKey key = ports.with(transaction);
    if (questions_.find(key)) return;  // a retransmitted request
    SubnetQuestion& question = q.multicast ? q.membership.question : q.path.question;
    question.asker = ports.from;
    question.request_frame = packet.number;
    question.request_time = packet.time_ns;
    if (q.multicast) {
      read(q.membership, *record);
      q.membership.leaves = method == mad_method::erase;
    } else {
      read(q.path, *path);
    }
    questions_.put(key, q);
    return;
  }
  if (method != mad_method::get_response && method != mad_method::get_table_response &&
      method != mad_method::erase_response)
    return;

  const FlowKey key = ports.reversed(transaction);
  Question q;
  if (const Question* asked = questions_.find(key)) q = *asked;
  const bool known = q.membership.question.request_frame != 0 || q.path.question.request_frame != 0;
  const auto answered = [&](SubnetQuestion& question) {
    question.asker = ports.to;
    question.frame = packet.number;
    question.time = packet.time_ns;
    question.status = mad.get<"status">();
  };
  if (known ? q.multicast : attribute == member_record_id && method == mad_method::erase_response) {
    // If the request is unknown, the response to a Set looks like the response to a Get, so only the response to a
    // Delete is reported.
    if (!known) q.membership.leaves = true;
    answered(q.membership.question);
    if (const auto record = stack.get<McMemberRecord>(); record && q.membership.question.status == 0)
      read(q.membership, *record);
    questions_.erase(key);
    sink_.multicast(q.membership);
  } else if (attribute == path_record_id) {
    answered(q.path.question);
    questions_.erase(key);
    bool any = false;
    if (q.path.question.status == 0)
      for (const Layer& layer : stack.layers())
        if (layer.header == &info<PathRecord>) {
          read(q.path, View<PathRecord>(stack.bytes.data() + layer.offset));
          sink_.path(q.path);
          any = true;
        }
    if (!any && known) sink_.path(q.path);
  }
}

void Subnet::performance(const Packet& packet, const FlowKey& ports) {
  PortCounterReading reading;
  reading.node = ports.from;
  reading.frame = packet.number;
  reading.time = packet.time_ns;
  if (packet.stack.get<Mad>()->get<"status">() != 0) return;
  const auto traffic = [&](const auto& counters) {
    reading.port = counters.template get<"port_select">();
    reading.sent_bytes = counters.template get<"xmit_data.bytes">();
    reading.received_bytes = counters.template get<"rcv_data.bytes">();
    reading.sent_packets = counters.template get<"xmit_pkts">();
    reading.received_packets = counters.template get<"rcv_pkts">();
  };
  if (const auto extended = packet.stack.get<PortCountersExtended>()) {
    reading.extended = true;
    traffic(*extended);
  } else if (const auto counters = packet.stack.get<PortCounters>()) {
    traffic(*counters);
    reading.symbol_errors = counters->get<"symbol_error_counter">();
    reading.link_error_recoveries = counters->get<"link_error_recovery_counter">();
    reading.link_downed = counters->get<"link_downed_counter">();
    reading.receive_errors = counters->get<"rcv_errors">();
    reading.receive_remote_physical_errors = counters->get<"rcv_remote_physical_errors">();
    reading.receive_switch_relay_errors = counters->get<"rcv_switch_relay_errors">();
    reading.transmit_discards = counters->get<"xmit_discards">();
    reading.transmit_constraint_errors = counters->get<"xmit_constraint_errors">();
    reading.receive_constraint_errors = counters->get<"rcv_constraint_errors">();
    reading.local_link_integrity_errors = counters->get<"local_link_integrity_errors">();
    reading.excessive_buffer_overruns = counters->get<"excessive_buffer_overrun_errors">();
    reading.vl15_dropped = counters->get<"vl15_dropped">();
    reading.transmit_wait = counters->get<"xmit_wait">();
  } else {
    return;
  }
  sink_.port_counters(reading);
}

void Subnet::finish() {
  questions_.for_each_oldest_first([&](const FlowKey&, const Question& q) {
    if (q.multicast)
      sink_.multicast(q.membership);
    else
      sink_.path(q.path);
  });
  questions_.clear();
}

}  // namespace rdmawire::tracking
