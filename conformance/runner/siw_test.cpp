// Linux's siw as a target over rdmawire's own TCP, in both roles, and the loss of its kernel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "conformance/lab/guest_for_test.hpp"
#include "conformance/runner/certify.hpp"
#include "conformance/runner/target.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "replay/peer/connection_manager.hpp"

namespace rdmawire::conformance {
namespace {

using namespace std::chrono_literals;
using peer::ByteVector;
using replay::TcpArrival;
using replay::TcpConnection;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t patience = 20'000'000'000;

/// One guest for all tests, rebooted once if it hangs. RDMAWIRE_TEST_KERNEL=newest selects the newest kernel.
tl::expected<std::unique_ptr<Target>, TargetError>& booted() {
  static auto one = [] {
    TargetOptions options{.device = "lab:siw", .agent = RDMAWIRE_AGENT};
    if (const char* kernel = std::getenv("RDMAWIRE_TEST_KERNEL")) options.kernel = kernel;
    options.progress = [](std::string_view line) {
      std::fprintf(stderr, "  %.*s\n", static_cast<int>(line.size()), line.data());
    };
    const auto began = std::chrono::steady_clock::now();
    auto target = Target::open(options);
    if (!target && target.error().message.find("did not boot") != std::string::npos) target = Target::open(options);
    std::fprintf(stderr, "  reached after %.1f s\n",
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    return target;
  }();
  return one;
}

ByteVector bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

ByteVector mpa_frame(bool request, int revision, std::string_view private_data) {
  HeaderValue frame = Value<MpaFrame>().set<"crc">(1).set<"revision">(revision).set<"enhanced">(revision == 2);
  if (!request) frame.set(*info<MpaFrame>.find("key"), bytes_of("MPA ID Rep Frame"));
  ByteVector data;
  if (revision == 2) {
    const auto depths = Value<MpaEnhanced>().set<"ird">(1).set<"ord">(1);
    data.assign(depths.bytes().begin(), depths.bytes().end());
  }
  for (const char letter : private_data) data.push_back(static_cast<std::uint8_t>(letter));
  frame.set_tail(data);
  return (Frame() / frame).encode();
}

/// A stream in both directions after the MPA negotiation.
class Stream {
 public:
  explicit Stream(replay::TcpHost& host, std::unique_ptr<TcpConnection> connection)
      : host_(host), connection_(std::move(connection)) {}

  TcpConnection& tcp() { return *connection_; }
  void send(const Frame& frame) {
    ByteVector bytes;
    sender_.send(bytes, frame);
    // Two segments, which TCP must not coalesce.
    ASSERT_TRUE(connection_->send(Bytes(bytes).first(5)));
    ASSERT_TRUE(connection_->send(Bytes(bytes).subspan(5)));
  }
  ByteVector take(std::size_t bytes) {
    while (there_.size() < bytes) {
      const auto arrival = connection_->receive(host_.now() + patience);
      if (!arrival || !*arrival || (*arrival)->bytes.empty()) return {};
      there_.insert(there_.end(), (*arrival)->bytes.begin(), (*arrival)->bytes.end());
    }
    ByteVector taken(there_.begin(), there_.begin() + static_cast<std::ptrdiff_t>(bytes));
    there_.erase(there_.begin(), there_.begin() + static_cast<std::ptrdiff_t>(bytes));
    return taken;
  }
  ByteVector take_mpa_frame() {
    ByteVector frame = take(MpaFrame::size);
    if (frame.empty()) return frame;
    const ByteVector data = take(View<MpaFrame>(frame.data()).get<"private_data_length">());
    frame.insert(frame.end(), data.begin(), data.end());
    return frame;
  }
  ByteVector take_fpdu() {
    ByteVector fpdu = take(Fpdu::size);
    if (fpdu.empty()) return fpdu;
    const ByteVector rest = take(mpa::fpdu_bytes(View<Fpdu>(fpdu.data()).get<"ulpdu_length">()) - Fpdu::size);
    fpdu.insert(fpdu.end(), rest.begin(), rest.end());
    return fpdu;
  }

 private:
  replay::TcpHost& host_;
  std::unique_ptr<TcpConnection> connection_;
  MpaSender sender_{{.markers = false, .crc = true}};
  ByteVector there_;
};

HeaderStack decoded(Bytes fpdu) {
  HeaderStack stack;
  decode_fpdu(stack, fpdu);
  return stack;
}
Frame send_message(std::uint32_t msn, std::string_view text) {
  Frame frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>().set<"msn">(msn);
  frame.payload = bytes_of(text);
  return frame;
}

class Siw : public ::testing::Test {
 protected:
  void SetUp() override {
    if (lab::find_program("qemu-system-x86_64").empty())
      GTEST_SKIP() << "needs qemu-system-x86_64 (package qemu-system-x86)";
    if (!booted() && booted().error().message.find("network") != std::string::npos)
      GTEST_SKIP() << booted().error().message;
    ASSERT_TRUE(booted()) << booted().error().message;
    pd_ = device().device->protection_domain().value();
    cq_ = device().device->completion_queue(64).value();
    memory_ = pd_.region(4096, {"local_write", "remote_write", "remote_read"}).value();
  }
  void TearDown() override {
    if (!booted()) return;
    for (const std::string& complaint : target().complaints()) ADD_FAILURE() << "the guest's kernel: " << complaint;
  }
  static Target& target() { return **booted(); }
  static DeviceUnderTest& device() { return target().device(); }
  static replay::TcpHost& host() { return *device().tcp; }
  peer::QueuePair queue_pair() {
    auto qp = pd_.queue_pair({.send_cq = &cq_}).value();
    EXPECT_TRUE(qp.to_init());
    EXPECT_TRUE(qp.post_recv({{.wr_id = 7, .sges = {memory_.piece(512, 64)}}}));
    return qp;
  }
  /// Connects to the listening device.
  Stream accepted(const peer::QueuePair& qp, int revision) {
    const std::string own = to_string(device().address);
    const auto listener = peer::Listener::listen(*device().peer, {.address = own}).value();
    auto connection =
        host().connect({device().address, listener.port()}, {.mss = 1460}, host().now() + patience).value();
    Stream stream(host(), std::move(connection));
    const ByteVector asked = mpa_frame(true, revision, "hello");
    // The request frame in two segments.
    EXPECT_TRUE(stream.tcp().send(Bytes(asked).first(7)) && stream.tcp().send(Bytes(asked).subspan(7)));
    connection_ = listener.request(20s).value();
    EXPECT_THAT(text_of(connection_->request().private_data), StartsWith("hello"));
    EXPECT_TRUE(connection_->accept(qp, {.private_data = bytes_of("welcome"), .responder_resources = 1}));
    const ByteVector answer = stream.take_mpa_frame();
    HeaderStack stack;
    decode_mpa_frame(stack, answer);
    const auto mpa = stack.get<MpaFrame>();
    EXPECT_TRUE(mpa && MpaFrame::is_reply(mpa->data()));
    if (mpa) {
      EXPECT_EQ(mpa->get<"reject">(), 0);
      EXPECT_EQ(mpa->get<"crc">(), 1);
      EXPECT_EQ(mpa->get<"revision">(), revision);
    }
    EXPECT_THAT(text_of(answer), ::testing::EndsWith("welcome"));
    EXPECT_TRUE(connection_->wait_established(20s));
    return stream;
  }
  void expect_received(std::string_view text) {
    const auto completions = cq_.poll(1, 20s).value();
    ASSERT_EQ(completions.size(), 1);
    EXPECT_EQ(completions[0].status, "success");
    EXPECT_EQ(completions[0].wr_id, 7);
    EXPECT_EQ(completions[0].byte_len, text.size());
    EXPECT_EQ(text_of(memory_.read(512, text.size()).value()), text);
  }
  void expect_read(Stream& stream) {
    ASSERT_TRUE(memory_.write(64, bytes_of("as it is")));
    stream.send(Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>() /
                Value<RdmapReadRequest>()
                    .set<"sink_stag">(0x5157)
                    .set<"sink_to">(0x1000)
                    .set<"size">(8)
                    .set<"src_stag">(memory_.rkey())
                    .set<"src_to">(memory_.addr() + 64));
    const ByteVector fpdu = stream.take_fpdu();
    const HeaderStack response = decoded(fpdu);
    const auto tagged = response.get<DdpTagged>();
    ASSERT_TRUE(tagged);
    EXPECT_EQ(tagged->get<"stag">(), 0x5157);
    EXPECT_EQ(tagged->get<"to">(), 0x1000);
    EXPECT_EQ(response.get<Rdmap>()->get<"opcode">(), 2);  // Read Response: RFC 5040, 4.3
    EXPECT_EQ(text_of(response.bytes_of(response.payload)), "as it is");
    EXPECT_EQ(check_mpa_crc(response).status, CrcCheck::Status::good);
  }

  void expect_exchange(int revision) {
    const auto qp = queue_pair();
    Stream stream = accepted(qp, revision);
    stream.send(send_message(1, "by hand"));
    expect_received("by hand");
    expect_read(stream);
  }

  peer::ProtectionDomain pd_;
  peer::CompletionQueue cq_;
  peer::Region memory_;
  std::optional<peer::CmConnection> connection_;
};

TEST_F(Siw, TargetReportsDestinationsAndName) {
  EXPECT_TRUE(device().is_iwarp());
  EXPECT_EQ(device().wire, nullptr);
  EXPECT_EQ(device().name, "lab:siw");
  EXPECT_EQ(to_string(device().address), "10.77.0.1");
  EXPECT_EQ(to_string(host().address()), "10.77.0.200");
  EXPECT_EQ(target().destinations(), "52:54:00:77:00:01, 10.77.0.1, TCP");
  const bool newest = std::getenv("RDMAWIRE_TEST_KERNEL") != nullptr;
  EXPECT_THAT(target().known_as(), ::testing::MatchesRegex(newest ? "siw-[0-9]+\\.[0-9]+" : "siw-6\\.1"));
  EXPECT_THAT(target().details(), StartsWith("siw0 at guest1, kernel "));
  EXPECT_FALSE(target().gone());
  EXPECT_FALSE(device().virtual_time());
}

TEST_F(Siw, Revision1ExecutesSendAndRead) { expect_exchange(1); }
TEST_F(Siw, Revision2ExecutesSendAndRead) { expect_exchange(2); }

TEST_F(Siw, WrongMsnCausesTerminate) {
  const auto qp = queue_pair();
  Stream stream = accepted(qp, 2);
  stream.send(send_message(2, "too early"));
  const ByteVector fpdu = stream.take_fpdu();
  const HeaderStack stack = decoded(fpdu);
  const auto terminate = stack.get<Terminate>();
  ASSERT_TRUE(terminate);
  // DDP (1), untagged buffer error (2), MSN out of range (3). RFC 5041, 7.2. siw swaps layer and type (TRM-001,
  // observed with 6.1).
  EXPECT_THAT(load_be<2>(terminate->data()), AnyOf(0x1203, 0x2103));
  // siw closes the connection after the Terminate.
  const auto arrival = stream.tcp().receive(host().now() + patience);
  ASSERT_TRUE(arrival && *arrival);
  EXPECT_NE((*arrival)->kind, TcpArrival::Kind::bytes);
}

TEST_F(Siw, ConnectsToTester) {
  const auto port = host().listen(0, {.mss = 1460});
  ASSERT_TRUE(port);
  const auto qp = queue_pair();
  auto asking = peer::CmConnection::connect(*device().peer, qp, {.address = to_string(host().address()), .port = *port},
                                            {.private_data = bytes_of("hello"), .initiator_depth = 1});
  ASSERT_TRUE(asking) << asking.error().message;
  auto connection = host().accept(*port, host().now() + patience);
  ASSERT_TRUE(connection && *connection);
  EXPECT_EQ((*connection)->remote().address, device().address);
  Stream stream(host(), std::move(*connection));
  const ByteVector request = stream.take_mpa_frame();
  HeaderStack stack;
  decode_mpa_frame(stack, request);
  const auto mpa = stack.get<MpaFrame>();
  ASSERT_TRUE(mpa && MpaFrame::is_request(mpa->data()));
  EXPECT_EQ(mpa->get<"revision">(), 2);
  EXPECT_THAT(text_of(request), HasSubstr("hello"));
  ASSERT_TRUE(stream.tcp().send(mpa_frame(false, 2, "welcome")));
  const auto established = asking->wait_established(20s);
  ASSERT_TRUE(established) << established.error().message;
  EXPECT_THAT(text_of(established->private_data), StartsWith("welcome"));
  // The initiator sends first. RFC 5044, 7.1.
  ASSERT_TRUE(memory_.write(0, bytes_of("first")));
  ASSERT_TRUE(qp.post_send({{.wr_id = 9, .sges = {memory_.piece(0, 5)}}}));
  const ByteVector fpdu = stream.take_fpdu();
  const HeaderStack sent = decoded(fpdu);
  EXPECT_EQ(text_of(sent.bytes_of(sent.payload)), "first");
  EXPECT_EQ(cq_.poll(1, 20s).value().at(0).wr_id, 9);
  stream.send(send_message(1, "and then we"));
  expect_received("and then we");
  host().stop_listening(*port);
}

TEST_F(Siw, InterruptEndsWaiting) {
  // The last test but one, because the target is unusable afterwards.
  const auto port = host().listen(0, {});
  ASSERT_TRUE(port);
  std::thread other([] {
    std::this_thread::sleep_for(100ms);
    host().interrupt();
  });
  const std::int64_t before = host().now();
  const auto nobody = host().accept(*port, before + patience);
  other.join();
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, replay::WireError::Kind::closed);
  EXPECT_LT(host().now() - before, patience / 4);
}

TEST_F(Siw, AgentTargetUsesAllowedAddress) {
  auto other = lab::TestGuest::boot(true, RDMAWIRE_AGENT);
  ASSERT_TRUE(other) << other.error().message;
  TargetOptions options{.device = "agent:" + other->agent(), .wire = other->guest.ports().at(0).wire};
  const auto unsaid = Target::open(options);
  ASSERT_FALSE(unsaid);
  EXPECT_TRUE(unsaid.error().usage);
  EXPECT_THAT(unsaid.error().message, HasSubstr("specify it with --allow"));
  options.allowed = {"10.77.0.99"};
  const auto nobody = Target::open(options);
  ASSERT_FALSE(nobody);
  EXPECT_THAT(nobody.error().message, HasSubstr("no reply from 10.77.0.99"));
  options.allowed = {"10.77.0.99", other->address()};
  options.frames_per_second = 200;
  const auto target = Target::open(options);
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_TRUE((*target)->device().is_iwarp());
  EXPECT_EQ((*target)->destinations(), "52:54:00:77:00:01, 10.77.0.1, TCP");
  // No listener. The rate limit applies to the resulting frames.
  replay::TcpHost& tcp = *(*target)->device().tcp;
  const std::int64_t before = tcp.now();
  constexpr int tries = 120;
  for (int i = 0; i < tries; ++i) {
    const auto refused = tcp.connect({(*target)->device().address, 9}, {}, tcp.now() + patience);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("refused"));
  }
  EXPECT_GE(tcp.now() - before, std::int64_t{1'000'000'000} * (tries - 64 - 1) / 200);
  EXPECT_EQ(tcp.take_passed().size(), 2U * tries);
}

/// Crashes the guest's kernel.
void panics(Bench& bench) {
  (void)bench.device().peer->call("run", {{"argv", {"/bin/sh", "-c", "echo c >/proc/sysrq-trigger"}}});
  bench.pass(500'000'000);
}
void is_well(Bench& bench) { bench.note("fine"); }
constexpr Case fatal{.rule = "rc.responder.psn.sequence-error", .variant = "fatal", .run = panics};
constexpr Case good{.rule = "rc.responder.psn.sequence-error", .variant = "good", .run = is_well};

TEST(LabKernel, PanicFailsTheCaseAndTheNextCaseRuns) {
  if (lab::find_program("qemu-system-x86_64").empty() || !booted()) GTEST_SKIP() << "needs the lab";
  CertifyOptions options;
  options.open = [](auto&&...) { return Target::open({.device = "lab:rxe", .agent = RDMAWIRE_AGENT}); };
  const Certification all = certify(std::vector<const Case*>{&fatal, &good}, options);
  ASSERT_EQ(all.results.size(), 2U);
  EXPECT_EQ(all.results[0].judgment.verdict, Verdict::fail);
  EXPECT_EQ(all.results[0].judgment.expected, "the device keeps running");
  EXPECT_THAT(all.results[0].judgment.actual, StartsWith("the device was lost: the guest's kernel panicked: "));
  EXPECT_EQ(all.results[1].judgment.verdict, Verdict::pass);
}

/// The last test, because the guest is lost.
TEST(SiwKernel, PanicIsADeviceLossAndAnotherGuestBoots) {
  if (lab::find_program("qemu-system-x86_64").empty() || !booted()) GTEST_SKIP() << "needs the guest";
  Target& target = **booted();
  EXPECT_FALSE(target.gone());
  // The call may fail.
  (void)target.device().peer->call("run", {{"argv", {"/bin/sh", "-c", "echo c >/proc/sysrq-trigger"}}});
  for (int tries = 0; tries < 300 && !target.device().peer->lost(); ++tries) std::this_thread::sleep_for(100ms);
  const auto gone = target.gone();
  ASSERT_TRUE(gone);
  EXPECT_TRUE(gone->device);
  EXPECT_EQ(gone->why, "the guest's kernel panicked: Kernel panic - not syncing: sysrq triggered crash");
  EXPECT_THAT(target.complaints(), Contains(HasSubstr("sysrq triggered crash")));
  // The second guest runs next to the remains of the first.
  const auto again = Target::open({.device = "lab:siw", .agent = RDMAWIRE_AGENT});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE((*again)->gone());
  EXPECT_TRUE((*again)->device().tcp->pass((*again)->device().now() + 1000));
}

}  // namespace
}  // namespace rdmawire::conformance
