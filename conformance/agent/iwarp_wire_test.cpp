// An iWARP device with a test peer: the agent accepts a connection from a TCP socket of the test.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>

#include "conformance/agent/device_fixture_for_test.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::peer {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::StartsWith;

std::string text_of(const ByteVector& bytes) { return {bytes.begin(), bytes.end()}; }
ByteVector bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// The test's end of a TCP connection. If no data arrives for 20 s, functions return fewer bytes than requested.
class Stream {
 public:
  explicit Stream(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{20, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] bool send(Bytes bytes) const {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  [[nodiscard]] ByteVector receive(std::size_t count) const {
    ByteVector bytes(count);
    const ssize_t got = ::recv(socket_.get(), bytes.data(), count, MSG_WAITALL);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  /// Including private data.
  [[nodiscard]] ByteVector receive_mpa_frame() const {
    ByteVector frame = receive(MpaFrame::size);
    if (frame.size() < MpaFrame::size) return frame;
    const ByteVector data = receive(View<MpaFrame>(frame.data()).get<"private_data_length">());
    frame.insert(frame.end(), data.begin(), data.end());
    return frame;
  }
  [[nodiscard]] ByteVector receive_fpdu() const {
    ByteVector fpdu = receive(Fpdu::size);
    if (fpdu.size() < Fpdu::size) return fpdu;
    const std::uint32_t length = mpa::fpdu_bytes(View<Fpdu>(fpdu.data()).get<"ulpdu_length">());
    const ByteVector rest = receive(length - Fpdu::size);
    fpdu.insert(fpdu.end(), rest.begin(), rest.end());
    return fpdu;
  }

 private:
  lab::Descriptor socket_;
  bool connected_ = false;
};

struct Negotiation {
  const char* name;
  int revision;
  bool crc;
};

class OverTcp : public testing::DeviceTest, public ::testing::WithParamInterface<Negotiation> {
 protected:
  void SetUp() override {
    begin("iwarp", "siwtcp");
    if (IsSkipped() || HasFatalFailure()) return;
    if (guest == nullptr) GTEST_SKIP() << "requires a lab guest with forwarded TCP ports";
  }
  /// Returns an MPA request with the private data "hello".
  static ByteVector mpa_request() {
    HeaderValue request = Value<MpaFrame>()
                              .set<"crc">(GetParam().crc)
                              .set<"revision">(GetParam().revision)
                              .set<"enhanced">(GetParam().revision == 2);
    ByteVector data = bytes_of("hello");
    if (GetParam().revision == 2) {
      const auto enhanced = Value<MpaEnhanced>().set<"ird">(1).set<"ord">(1);
      data.insert(data.begin(), enhanced.bytes().begin(), enhanced.bytes().end());
    }
    request.set_tail(data);
    Frame frame;
    frame /= request;
    return frame.encode();
  }
};

TEST_P(OverTcp, SentDataArrivesAndReadDataIsReturned) {
  const auto port = guest->tcp_ports().at(0);
  const auto listener = Listener::listen(*peer, {.address = "10.0.2.15", .port = port.guest}).value();
  const Stream stream(port.host);
  ASSERT_TRUE(stream.connected() && stream.send(mpa_request()));
  auto request = listener.request(20s).value();
  EXPECT_THAT(text_of(request.request().private_data), StartsWith("hello"));
  const auto qp = rc();
  ASSERT_TRUE(qp.to_init());
  ASSERT_TRUE(qp.post_recv({{.wr_id = 7, .sges = {memory.piece(512, 64)}}}));
  ASSERT_TRUE(request.accept(qp, {.private_data = bytes_of("welcome"), .responder_resources = 1}));
  HeaderStack answer;
  const ByteVector reply = stream.receive_mpa_frame();
  decode_mpa_frame(answer, reply);
  const auto mpa = answer.get<MpaFrame>();
  ASSERT_TRUE(mpa && MpaFrame::is_reply(mpa->data()));
  EXPECT_EQ(mpa->get<"reject">(), 0);
  EXPECT_EQ(mpa->get<"crc">(), GetParam().crc);
  EXPECT_EQ(mpa->get<"revision">(), GetParam().revision);
  EXPECT_THAT(std::string(reply.begin(), reply.end()), ::testing::EndsWith("welcome"));

  MpaSender sender({.markers = false, .crc = GetParam().crc});
  ByteVector bytes;
  Frame write = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() /
                Value<DdpTagged>().set<"stag">(memory.rkey()).set<"to">(memory.addr() + 64);
  write.payload = bytes_of("by hand!");
  Frame send = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>();
  send.payload = bytes_of("it is there");
  const Frame read = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>() /
                     Value<RdmapReadRequest>()
                         .set<"sink_stag">(0x5157)
                         .set<"sink_to">(0x1000)
                         .set<"size">(8)
                         .set<"src_stag">(memory.rkey())
                         .set<"src_to">(memory.addr() + 64);
  for (const Frame& frame : {write, send, read}) sender.send(bytes, frame);
  ASSERT_TRUE(stream.send(bytes));

  const auto completions = cq.poll(1, 20s).value();
  ASSERT_EQ(completions.size(), 1);
  EXPECT_EQ(completions[0].status, "success");
  EXPECT_EQ(completions[0].wr_id, 7);
  EXPECT_EQ(completions[0].byte_len, 11);
  EXPECT_EQ(text_of(memory.read(64, 8).value()), "by hand!");
  EXPECT_EQ(text_of(memory.read(512, 11).value()), "it is there");

  const ByteVector fpdu = stream.receive_fpdu();
  HeaderStack response;
  decode_fpdu(response, fpdu);
  const auto tagged = response.get<DdpTagged>();
  const Bytes payload = response.bytes_of(response.payload);
  ASSERT_TRUE(tagged);
  EXPECT_EQ(response.get<Rdmap>()->get<"opcode">(), static_cast<int>(RdmapOperation::read_response));
  EXPECT_EQ(tagged->get<"stag">(), 0x5157);
  EXPECT_EQ(tagged->get<"to">(), 0x1000);
  EXPECT_EQ(text_of({payload.begin(), payload.end()}), "by hand!");
  if (GetParam().crc) {
    EXPECT_EQ(check_mpa_crc(response).status, CrcCheck::Status::good);
  }
}

INSTANTIATE_TEST_SUITE_P(Negotiations, OverTcp,
                         ::testing::Values(Negotiation{"with_crc", 2, true}, Negotiation{"without_crc", 2, false},
                                           Negotiation{"revision_1", 1, true}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace rdmawire::peer
