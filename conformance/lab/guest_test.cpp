/// Tests with real guests. Tests of a suite share one guest. Tests that end their guest boot their own.

#include "conformance/lab/guest.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "conformance/lab/process.hpp"
#include "conformance/lab/run_directory.hpp"
#include "replay/wires/wire.hpp"
#include "source_directory.hpp"

namespace rdmawire::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

void tell(std::string_view line) { std::fprintf(stderr, "  %.*s\n", static_cast<int>(line.size()), line.data()); }

// Returns the image, or the error if there is none. Builds it at most once per program.
const Result<Image>& image(bool siw) {
  const auto provide = [](bool with_siw) -> Result<Image> {
    if (find_program("qemu-system-x86_64").empty())
      return failure(LabError::Kind::missing, "requires qemu-system-x86_64 (package qemu-system-x86)");
    ImageOptions options;
    options.siw = with_siw;
    options.progress = tell;
    return provide_image(options);
  };
  static std::optional<Result<Image>> images[2];
  auto& chosen = images[siw ? 1 : 0];
  if (!chosen) chosen = provide(siw);
  return *chosen;
}

// Skips the test if no image can be built because a program or the network is missing. Other errors fail the test.
#define NEEDS_IMAGE(siw)                                                                                       \
  if (const auto& it = image(siw); !it) {                                                                      \
    if (it.error().kind == LabError::Kind::missing || it.error().message.find("network") != std::string::npos) \
      GTEST_SKIP() << it.error().message;                                                                      \
    FAIL() << it.error().message;                                                                              \
  }

class Lab {
 public:
  explicit Lab(const GuestOptions& options = {}) {
    directory_ = RunDirectory::create("").value();
    GuestOptions all = options;
    all.progress = tell;
    auto booted = Guest::boot(*image(all.siw), directory_.path(), all);
    if (booted)
      guest.emplace(std::move(*booted));
    else
      error = booted.error();
  }
  [[nodiscard]] const fs::path& path() const { return directory_.path(); }

 private:
  RunDirectory directory_;

 public:
  std::optional<Guest> guest;
  LabError error;
};

std::string output_of(Guest& guest, const std::vector<std::string>& argv) {
  RunOptions options;
  options.timeout = std::chrono::seconds(60);
  const auto result = guest.run(argv, options);
  if (!result) return "error: " + result.error().message;
  return result->output + (result->error.empty() ? "" : "stderr: " + result->error) +
         (result->status == 0 ? "" : "status " + std::to_string(result->status));
}

bool wait_for_end(const Guest& guest) {
  pollfd waiting{guest.ended_descriptor(), POLLIN, 0};
  return ::poll(&waiting, 1, 60'000) == 1;
}

class Rxe : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!image(false)) return;
    lab_ = std::make_unique<Lab>();
  }
  static void TearDownTestSuite() { lab_.reset(); }
  void SetUp() override {
    NEEDS_IMAGE(false);
    ASSERT_TRUE(lab_->guest) << lab_->error.message;
  }
  static Guest& guest() { return *lab_->guest; }
  static inline std::unique_ptr<Lab> lab_;
};

TEST_F(Rxe, DeviceIsActive) {
  EXPECT_THAT(output_of(guest(), {"rdma", "link"}),
              HasSubstr("link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0"));
  const std::string information = output_of(guest(), {"ibv_devinfo", "-v"});
  EXPECT_THAT(information, HasSubstr("PORT_ACTIVE"));
  EXPECT_THAT(information, HasSubstr("::ffff:10.77.0.1"));
  EXPECT_EQ(guest().ports().at(0).devices, std::vector<std::string>{"rxe0"});
}

TEST_F(Rxe, ProgramsHaveStreamsAndExitStatus) {
  const auto result = guest().run({"sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->output, "out\n");
  EXPECT_EQ(result->error, "err\n");
  EXPECT_EQ(result->status, 7);
  EXPECT_EQ(output_of(guest(), {"sh", "-c", "kill -TERM $$"}), "status 143");
  EXPECT_THAT(output_of(guest(), {"no-such-program"}), HasSubstr("status 127"));
}

TEST_F(Rxe, ArgumentsArePassedUnchanged) {
  const std::vector<std::string> words = {"",           "a b", "it's",  "$HOME", "back\\slash\\n",
                                          "two\nlines", "*",   "\"q\"", "ü"};
  std::vector<std::string> argv = {"printf", "[%s]"};
  argv.insert(argv.end(), words.begin(), words.end());
  std::string expected;
  for (const std::string& word : words) expected += "[" + word + "]";
  EXPECT_EQ(output_of(guest(), argv), expected);
}

TEST_F(Rxe, InputIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reading(ends[0]);
  std::thread writer([to = ends[1]] {
    const Descriptor writing(to);
    const std::string text(100'000, 'x');
    EXPECT_EQ(::write(writing.get(), text.data(), text.size()), 100'000);
  });
  RunOptions options;
  options.input = reading.get();
  const auto result = guest().run({"wc", "-c"}, options);
  writer.join();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->output, "100000\n");
  EXPECT_EQ(output_of(guest(), {"wc", "-c"}), "0\n") << "without input, end of file is immediate";
}

TEST_F(Rxe, LargeOutputIsComplete) {
  const std::string text = output_of(guest(), {"seq", "1", "100000"});
  EXPECT_EQ(text.size(), 588'895U);
  EXPECT_EQ(text.substr(text.size() - 7), "100000\n");
}

TEST_F(Rxe, ProgramIsKilledAtTimeout) {
  RunOptions options;
  options.timeout = std::chrono::seconds(2);
  const auto result = guest().run({"sh", "-c", "yes & sleep 1000"}, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, LabError::Kind::timeout);
  EXPECT_EQ(output_of(guest(), {"sh", "-c", "pidof yes sleep"}), "status 1") << "both are killed";
  EXPECT_EQ(output_of(guest(), {"echo", "next"}), "next\n")
      << "output of the killed program does not reach the next one";
}

TEST_F(Rxe, ProgramsRunConcurrently) {
  std::string first;
  std::thread other([&] {
    first = output_of(guest(), {"sh", "-c", "until [ -e /tmp/go ]; do sleep 1; done; echo went"});
  });
  EXPECT_EQ(output_of(guest(), {"touch", "/tmp/go"}), "");
  other.join();
  EXPECT_EQ(first, "went\n");
}

TEST_F(Rxe, PortIsWire) {
  auto wire = replay::open_wire(guest().ports().at(0).wire);
  ASSERT_TRUE(wire) << wire.error().message;
  // ARP request: who has 10.77.0.1? Sent by 10.77.0.99.
  const unsigned char question[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0,    0, 0,  0x99, 0x08, 0x06,
                                    0,    1,    8,    0,    6,    4,    0,    1, 0x02, 0, 0,  0,    0,    0x99,
                                    10,   77,   0,    99,   0,    0,    0,    0, 0,    0, 10, 77,   0,    1};
  const Bytes frame(question, sizeof question);
  for (int attempt = 0; attempt < 5; ++attempt) {
    ASSERT_TRUE((*wire)->send(frame));
    const std::int64_t deadline = (*wire)->now() + 2'000'000'000;
    while (true) {
      const auto received = (*wire)->receive(deadline);
      ASSERT_TRUE(received) << received.error().message;
      if (!*received) break;
      const auto bytes = (*received)->frame;
      if (bytes.size() < 42 || bytes[12] != 0x08 || bytes[13] != 0x06 || bytes[21] != 2) continue;
      const unsigned char expected[] = {0x52, 0x54, 0, 0x77, 0, 1, 10, 77, 0, 1, 0x02, 0, 0, 0, 0, 0x99, 10, 77, 0, 99};
      EXPECT_EQ(std::memcmp(bytes.data() + 22, expected, sizeof expected), 0);
      return;
    }
  }
  FAIL() << "nobody answered";
}

TEST_F(Rxe, SocketProvidesShell) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  guest().shell().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string typed = "echo $((6*7))-and-$(tty)\n";
  ASSERT_EQ(::send(socket.get(), typed.data(), typed.size(), 0), static_cast<ssize_t>(typed.size()));
  std::string seen;
  while (seen.find("42-and-/dev/hvc0") == std::string::npos) {
    pollfd waiting{socket.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 30'000), 1) << seen;
    char buffer[512];
    const ssize_t got = ::read(socket.get(), buffer, sizeof buffer);
    ASSERT_GT(got, 0);
    seen.append(buffer, static_cast<std::size_t>(got));
  }
}

TEST_F(Rxe, KernelReportedNoErrors) { EXPECT_THAT(guest().complaints(), testing::IsEmpty()); }

TEST(Siw, ForwardedPortsReachSiw) {
  NEEDS_IMAGE(true);
  GuestOptions options;
  options.rxe = false;
  options.siw = true;
  Lab lab(options);
  ASSERT_TRUE(lab.guest) << lab.error.message;
  const std::string links = output_of(*lab.guest, {"rdma", "link"});
  EXPECT_THAT(links, HasSubstr("link siw0/1 state ACTIVE"));
  EXPECT_THAT(links, HasSubstr("link siwtcp/1 state ACTIVE"));
  // rping's guest must reply to an MPA request that arrives through the forwarded port.
  ASSERT_EQ(lab.guest->tcp_ports().at(0).guest, 7471);
  EXPECT_EQ(output_of(*lab.guest, {"sh", "-c", "rping -s -a 10.0.2.15 -p 7471 >/dev/null 2>&1 &"}), "");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(lab.guest->tcp_ports().at(0).host);
  std::string reply;
  for (int attempt = 0; attempt < 50 && reply.empty(); ++attempt) {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    // RFC 5044, 7.1.1: key, flags (CRC), revision 1, no private data.
    const std::string request = std::string("MPA ID Req Frame") + std::string("\x40\x01\x00\x00", 4);
    ASSERT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL), 20);
    char buffer[64];
    pollfd waiting{socket.get(), POLLIN, 0};
    const ssize_t got = ::poll(&waiting, 1, 10'000) == 1 ? ::read(socket.get(), buffer, sizeof buffer) : 0;
    // Until rping listens, qemu closes the connection immediately. Retry.
    if (got > 0) reply.assign(buffer, static_cast<std::size_t>(got));
    if (got <= 0) output_of(*lab.guest, {"usleep", "100000"});
  }
  EXPECT_EQ(reply.substr(0, 16), "MPA ID Rep Frame");
}

TEST(GuestPorts, HaveConfiguredNamesAddressesAndVlan) {
  NEEDS_IMAGE(false);
  GuestOptions options;
  options.number = 3;
  options.ports.resize(2);
  options.ports[0].mac = "02:00:00:00:00:07";
  options.ports[0].addresses = {"192.0.2.7/24", "2001:db8::7/64"};
  options.ports[1].mtu = 4200;
  options.ports[1].vlan = 12;
  options.share = fs::path(RDMAWIRE_SOURCE_DIR) / "conformance";
  Lab lab(options);
  ASSERT_TRUE(lab.guest) << lab.error.message;
  Guest& guest = *lab.guest;
  EXPECT_THAT(output_of(guest, {"ip", "-br", "address", "show", "eth0"}),
              testing::AllOf(HasSubstr("192.0.2.7/24"), HasSubstr("2001:db8::7/64")));
  EXPECT_THAT(output_of(guest, {"ip", "link", "show", "eth0"}), HasSubstr("02:00:00:00:00:07"));
  EXPECT_THAT(output_of(guest, {"ip", "-d", "link", "show", "eth1.12"}),
              testing::AllOf(HasSubstr("mtu 4200"), HasSubstr("id 12")));
  EXPECT_THAT(output_of(guest, {"ip", "-br", "address", "show", "eth1.12"}), HasSubstr("10.78.1.3/24"));
  EXPECT_THAT(output_of(guest, {"rdma", "link"}), testing::AllOf(HasSubstr("netdev eth0 "), HasSubstr("netdev eth1 ")));
  EXPECT_THAT(output_of(guest, {"ibv_devinfo", "-v", "-d", "rxe1"}), HasSubstr("::ffff:10.78.1.3"));
  EXPECT_THAT(output_of(guest, {"cat", "/share/lab/error.hpp"}), HasSubstr("struct LabError"));
  EXPECT_THAT(output_of(guest, {"touch", "/share/x"}), HasSubstr("Read-only file system"));
}

TEST(GuestEnds, PanicIsReportedWithItsLines) {
  NEEDS_IMAGE(false);
  Lab lab;
  ASSERT_TRUE(lab.guest) << lab.error.message;
  const auto result = lab.guest->run({"sh", "-c", "echo c >/proc/sysrq-trigger"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, LabError::Kind::guest);
  ASSERT_TRUE(wait_for_end(*lab.guest));
  EXPECT_THAT(lab.guest->ended()->message, HasSubstr("panicked: Kernel panic - not syncing: sysrq triggered crash"));
  ASSERT_FALSE(lab.guest->complaints().empty());
  EXPECT_EQ(lab.guest->complaints()[0].kind, KernelReport::Kind::panic);
}

TEST(GuestEnds, KilledGuestIsReported) {
  NEEDS_IMAGE(false);
  Lab lab;
  ASSERT_TRUE(lab.guest) << lab.error.message;
  ::kill(lab.guest->process(), SIGKILL);
  ASSERT_TRUE(wait_for_end(*lab.guest));
  EXPECT_EQ(lab.guest->ended()->message, "qemu ended: killed by signal 9 (Killed)");
  EXPECT_FALSE(lab.guest->run({"true"}));
}

TEST(GuestEnds, FilesOfEndedGuestAreRemoved) {
  NEEDS_IMAGE(false);
  fs::path path;
  pid_t process = 0;
  {
    Lab lab;
    ASSERT_TRUE(lab.guest) << lab.error.message;
    path = lab.path();
    process = lab.guest->process();
    EXPECT_TRUE(fs::exists(lab.guest->console_log()));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(::kill(process, 0), -1);
}

TEST(GuestBoot, InvalidKernelIsAnError) {
  NEEDS_IMAGE(false);
  Image broken = *image(false);
  const auto directory = RunDirectory::create("").value();
  broken.kernel = directory.path() / "kernel";
  std::ofstream(broken.kernel) << "this is no kernel";
  GuestOptions options;
  options.timeout = std::chrono::seconds(10);
  const auto guest = Guest::boot(broken, directory.path(), options);
  ASSERT_FALSE(guest);
  EXPECT_EQ(guest.error().kind, LabError::Kind::boot);
  EXPECT_THAT(guest.error().message, HasSubstr("did not boot"));
  EXPECT_FALSE(fs::exists(directory.path() / "1"));
}

TEST(GuestBoot, HangingBootIsRetriedOnce) {
  NEEDS_IMAGE(false);
  const auto directory = RunDirectory::create("").value();
  GuestOptions options;
  options.kernel_arguments = "rdinit=/bin/yes";  // runs permanently and is never ready
  options.timeout = std::chrono::seconds(8);
  std::vector<std::string> lines;
  options.progress = [&](std::string_view line) { lines.emplace_back(line); };
  const auto guest = Guest::boot(*image(false), directory.path(), options);
  ASSERT_FALSE(guest);
  EXPECT_EQ(guest.error().kind, LabError::Kind::boot);
  EXPECT_THAT(guest.error().message, HasSubstr("did not boot within 8 s"));
  EXPECT_THAT(lines, testing::ElementsAre(HasSubstr("retrying")));
}

TEST(GuestBoot, PanicDuringBootIsReported) {
  NEEDS_IMAGE(false);
  const auto directory = RunDirectory::create("").value();
  GuestOptions options;
  options.kernel_arguments = "rdinit=/bin/false init=/bin/false";
  const auto guest = Guest::boot(*image(false), directory.path(), options);
  ASSERT_FALSE(guest);
  EXPECT_THAT(guest.error().message, HasSubstr("Kernel panic - not syncing"));
}

TEST(GuestBoot, BootCanBeStopped) {
  NEEDS_IMAGE(false);
  const auto directory = RunDirectory::create("").value();
  const Descriptor stop(::eventfd(1, EFD_CLOEXEC));
  GuestOptions options;
  options.stop = stop.get();
  const auto guest = Guest::boot(*image(false), directory.path(), options);
  ASSERT_FALSE(guest);
  EXPECT_EQ(guest.error().kind, LabError::Kind::stopped);
}

TEST(GuestBoot, MissingQemuIsReportedWithPackage) {
  NEEDS_IMAGE(false);
  const auto directory = RunDirectory::create("").value();
  GuestOptions options;
  options.qemu = "qemu-system-that-is-not-here";
  const auto guest = Guest::boot(*image(false), directory.path(), options);
  ASSERT_FALSE(guest);
  EXPECT_EQ(guest.error().kind, LabError::Kind::missing);
  EXPECT_THAT(guest.error().message, HasSubstr("install the package qemu-system-x86"));
}

}  // namespace
}  // namespace rdmawire::lab
