#include "conformance/device/device.hpp"

#include <gtest/gtest.h>

#include "conformance/device/link_for_test.hpp"

namespace rdmawire::device {
namespace {

using testing::Line;

DeviceOptions options_of(std::uint8_t number) {
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
  Sge at(std::uint64_t offset, std::uint32_t length) const { return {buffer + offset, length, mr->key}; }
  std::vector<Completion> poll() { return *device.poll_cq(cq, 256); }
  void fill(std::uint64_t offset, std::size_t octets, std::uint8_t seed) {
    const MutableBytes to = device.memory(buffer + offset, octets);
    for (std::size_t i = 0; i < octets; ++i) to[i] = static_cast<std::uint8_t>(seed + i * 7);
  }
  std::vector<std::uint8_t> octets(std::uint64_t offset, std::size_t count) {
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

TEST(Device, SendsAcrossTheWrapOfThePsns) {
  Pair pair;
  pair.a.fill(0, 5000, 3);
  ASSERT_TRUE(pair.b.device.post_recv(pair.b.qp, {.id = 7, .sges = {pair.b.at(0, 8000)}}));
  SendRequest send{.id = 9, .opcode = WorkOpcode::send_imm, .sges = {pair.a.at(0, 5000)}};
  send.immediate = 0x12345678;
  ASSERT_TRUE(pair.a.device.post_send(pair.a.qp, send));
  pair.line.run();
  const auto sent = pair.a.poll(), received = pair.b.poll();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].id, 9U);
  EXPECT_EQ(sent[0].status, Status::success);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].id, 7U);
  EXPECT_EQ(received[0].octets, 5000U);
  EXPECT_EQ(received[0].immediate, 0x12345678U);
  EXPECT_EQ(pair.b.octets(0, 5000), pair.a.octets(0, 5000));
  EXPECT_EQ(pair.line.seen.size(), 6U);  // five packets, one acknowledgement
}

TEST(Device, WritesReadsAndAtomics) {
  Pair pair;
  pair.a.fill(0, 3000, 5);
  pair.b.fill(100'000, 3000, 50);
  store_le(pair.b.device.memory(pair.b.buffer + 200'000, 8).data(), 8, 40);
  const auto post = [&](SendRequest request) { ASSERT_TRUE(pair.a.device.post_send(pair.a.qp, std::move(request))); };
  SendRequest write{.id = 1, .opcode = WorkOpcode::write, .sges = {pair.a.at(0, 3000)}};
  write.remote_address = pair.b.buffer + 50'000;
  write.rkey = pair.b.mr->key;
  post(write);
  SendRequest read{.id = 2, .opcode = WorkOpcode::read, .sges = {pair.a.at(100'000, 1000), pair.a.at(110'000, 2000)}};
  read.remote_address = pair.b.buffer + 100'000;
  read.rkey = pair.b.mr->key;
  post(read);
  SendRequest add{.id = 3, .opcode = WorkOpcode::fetch_add, .sges = {pair.a.at(200'000, 8)}};
  add.remote_address = pair.b.buffer + 200'000;
  add.rkey = pair.b.mr->key;
  add.swap_add = 2;
  post(add);
  SendRequest swap{.id = 4, .opcode = WorkOpcode::compare_swap, .sges = {pair.a.at(200'008, 8)}};
  swap.remote_address = pair.b.buffer + 200'000;
  swap.rkey = pair.b.mr->key;
  swap.compare = 42;
  swap.swap_add = 99;
  post(swap);
  pair.line.run();
  const auto done = pair.a.poll();
  ASSERT_EQ(done.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].id, i + 1);
    EXPECT_EQ(done[i].status, Status::success);
  }
  EXPECT_EQ(pair.b.octets(50'000, 3000), pair.a.octets(0, 3000));
  EXPECT_EQ(pair.a.octets(100'000, 1000), pair.b.octets(100'000, 1000));
  EXPECT_EQ(pair.a.octets(110'000, 2000), pair.b.octets(101'000, 2000));
  EXPECT_EQ(load_le(pair.a.device.memory(pair.a.buffer + 200'000, 8).data(), 8), 40U);
  EXPECT_EQ(load_le(pair.a.device.memory(pair.a.buffer + 200'008, 8).data(), 8), 42U);
  EXPECT_EQ(load_le(pair.b.device.memory(pair.b.buffer + 200'000, 8).data(), 8), 99U);
}

}  // namespace
}  // namespace rdmawire::device
