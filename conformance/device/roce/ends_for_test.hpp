#pragma once
/// For tests only: two connected devices, each with one queue pair and one memory region.

#include <gtest/gtest.h>

#include <vector>

#include "conformance/device/roce/link_for_test.hpp"

namespace rdmawire::device::testing {

inline DeviceOptions options_of(std::uint8_t number) {
  DeviceOptions options;
  options.seed = number;
  options.port.mac = {0x02, 0, 0, 0, 0, number};
  options.port.gids = {{Gid::link_local(options.port.mac), GidType::roce_v1},
                       {Gid::link_local(options.port.mac), GidType::roce_v2},
                       {Gid::ipv4(0x0a000000U | number), GidType::roce_v2}};
  return options;
}

/// A device with one queue pair and a region of memory.
struct End {
  explicit End(std::uint8_t number, QpType type = QpType::rc) : device(options_of(number)) {
    pd = *device.alloc_pd();
    cq = *device.create_cq(256);
    buffer = *device.alloc(1U << 20);
    mr = *device.reg_mr(pd, buffer, 1U << 20,
                        access::local_write | access::remote_write | access::remote_read | access::remote_atomic |
                            access::flush_global | access::flush_persistent);
    qp = *device.create_qp({.type = type, .pd = pd, .send_cq = cq, .recv_cq = cq});
  }
  void connect(const End& to, std::uint32_t own_psn, std::uint32_t its_psn, std::uint32_t mtu = 1024) {
    device.port().learn(Gid::ipv4(0x0a000000U | to.device.options().port.mac[5]), to.device.options().port.mac);
    AddressVector path;
    path.dgid = Gid::ipv4(0x0a000000U | to.device.options().port.mac[5]);
    path.sgid_index = 2;
    ASSERT_TRUE(device.modify_qp(qp, {.state = QpState::init,
                                      .pkey_index = 0,
                                      .port = 1,
                                      .access = access::remote_write | access::remote_read | access::remote_atomic |
                                                access::flush_global | access::flush_persistent}));
    const auto rtr = device.modify_qp(qp, {.state = QpState::rtr,
                                           .path_mtu = mtu,
                                           .path = path,
                                           .dest_qpn = to.device.qp(to.qp)->qpn,
                                           .rq_psn = its_psn,
                                           .max_dest_rd_atomic = 4,
                                           .min_rnr_timer = 1});
    ASSERT_TRUE(rtr) << rtr.error().message;
    ASSERT_TRUE(device.modify_qp(qp, {.state = QpState::rts,
                                      .sq_psn = own_psn,
                                      .max_rd_atomic = 4,
                                      .timeout = 8,
                                      .retry_count = 7,
                                      .rnr_retry = 7}));
  }
  /// Return a request that accesses the peer's memory.
  SendRequest request(WorkOpcode opcode, std::uint64_t id, Sge sge, const End& to, std::uint64_t offset) const {
    SendRequest request{.id = id, .opcode = opcode, .sges = {sge}};
    request.remote_address = to.buffer + offset;
    request.rkey = to.mr->key;
    return request;
  }
  Sge at(std::uint64_t offset, std::uint32_t length) const { return {buffer + offset, length, mr->key}; }
  std::vector<Completion> poll() { return *device.poll_cq(cq, 256); }
  void fill(std::uint64_t offset, std::size_t bytes, std::uint8_t seed) {
    const MutableBytes to = device.memory(buffer + offset, bytes);
    for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(seed + i * 7);
  }
  std::vector<std::uint8_t> bytes(std::uint64_t offset, std::size_t count) {
    const MutableBytes from = device.memory(buffer + offset, count);
    return {from.begin(), from.end()};
  }

  Device device;
  std::uint32_t pd, cq, qp;
  std::uint64_t buffer;
  const Region* mr;
};

struct Pair {
  explicit Pair(QpType type = QpType::rc, std::uint32_t psn_a = 0xfffffe, std::uint32_t psn_b = 100)
      : a(1, type), b(2, type), line(a.device, b.device) {
    a.connect(b, psn_a, psn_b);
    b.connect(a, psn_b, psn_a);
  }
  End a, b;
  Line line;
};

}  // namespace rdmawire::device::testing
