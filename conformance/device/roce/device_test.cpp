#include "conformance/device/roce/device.hpp"

#include <gtest/gtest.h>

#include "conformance/device/roce/ends_for_test.hpp"

namespace rdmawire::device {
namespace {

using testing::Pair;

TEST(Device, SendAcrossPsnWrap) {
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
  EXPECT_EQ(received[0].bytes, 5000U);
  EXPECT_EQ(received[0].immediate, 0x12345678U);
  EXPECT_EQ(pair.b.bytes(0, 5000), pair.a.bytes(0, 5000));
  EXPECT_EQ(pair.line.seen.size(), 6U);  // five packets, one acknowledgement
}

TEST(Device, WriteReadAndAtomicsComplete) {
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
  EXPECT_EQ(pair.b.bytes(50'000, 3000), pair.a.bytes(0, 3000));
  EXPECT_EQ(pair.a.bytes(100'000, 1000), pair.b.bytes(100'000, 1000));
  EXPECT_EQ(pair.a.bytes(110'000, 2000), pair.b.bytes(101'000, 2000));
  EXPECT_EQ(load_le(pair.a.device.memory(pair.a.buffer + 200'000, 8).data(), 8), 40U);
  EXPECT_EQ(load_le(pair.a.device.memory(pair.a.buffer + 200'008, 8).data(), 8), 42U);
  EXPECT_EQ(load_le(pair.b.device.memory(pair.b.buffer + 200'000, 8).data(), 8), 99U);
}

}  // namespace
}  // namespace rdmawire::device
