// The agent program and its client, for commands that require no RDMA device.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "replay/peer/peer.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX requires the declaration

namespace rdmawire {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using peer::Event;
using peer::Options;
using peer::Peer;
using ::testing::HasSubstr;

/// rdmawire-agent on its own Unix socket, for the duration of a test.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "rdmawire-agent-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    arguments.insert(arguments.begin(), {RDMAWIRE_AGENT, "--listen", "unix:" + socket()});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::array<int, 2> out{};
    EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    // The program prints a line when it listens.
    std::array<char, 256> said{};
    EXPECT_GT(::read(out[0], said.data(), said.size()), 0);
    ::close(out[0]);
  }
  ~Program() {
    end();
    std::filesystem::remove_all(folder_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] std::string socket() const { return folder_ + "/agent"; }
  peer::PeerResult<Peer> connect(Options options = {}) const { return Peer::connect("unix:" + socket(), options); }
  /// Returns the exit status.
  int end() {
    if (pid_ == 0) return 0;
    ::kill(pid_, SIGTERM);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  std::string folder_;
  pid_t pid_ = 0;
};

std::string text_of(const json& bytes) { return peer::from_hex(bytes.get<std::string>()).value_or("?"); }

/// Output of a process by stream, and its last event.
struct Course {
  std::string out, err;
  json end;
};
Course follow(Peer& peer, const json& process) {
  Course course;
  for (;;) {
    const auto event = peer.next_event(
        10s, [&](const Event& one) { return one.name == "process" && one.body.at("process") == process; });
    if (!event || !*event) {
      ADD_FAILURE() << "no event";
      return course;
    }
    const json& body = (*event)->body;
    if (body.at("type") == "stdout") {
      course.out += text_of(body.at("data"));
    } else if (body.at("type") == "stderr") {
      course.err += text_of(body.at("data"));
    } else {
      course.end = body;
      return course;
    }
  }
}

TEST(AgentProgram, GreetsAndReportsMissingDevices) {
  Program program;
  auto peer = program.connect();
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_THAT(peer->hello().at("agent").get<std::string>(), HasSubstr("rdmawire-agent"));
  EXPECT_EQ(peer->call("ping").value().at("objects"), 0);
  const auto unknown = peer->call("no_such_command");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().name, "ENOSYS");
  peer->close();
  EXPECT_EQ(program.end(), 0);
}

TEST(AgentProgram, RequiresConfiguredSecret) {
  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("rdmawire-{}", ::getpid())).string();
  std::ofstream(path) << "a secret that is long enough\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Program program({"--secret-file", path});
  const auto without = program.connect();
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().number, EACCES);
  Options options;
  options.secret_file = path;
  auto with = program.connect(options);
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_TRUE(with->call("ping"));
  std::ofstream(path) << "another secret, long enough\n";
  const auto wrong = program.connect(options);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().name, "EACCES");
  std::filesystem::remove(path);
}

TEST(AgentProgram, RunRequiresPermission) {
  Program program;
  auto peer = program.connect();
  ASSERT_TRUE(peer) << peer.error().message;
  const auto refused = peer->call("run", {{"argv", {"true"}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().name, "EPERM");
  EXPECT_EQ(refused.error().message, "run: running programs is not permitted; start the agent with --allow-run");
}

class AgentRun : public ::testing::Test {
 protected:
  AgentRun() : program_({"--allow-run"}), connected_(program_.connect()) {}
  void SetUp() override { ASSERT_TRUE(connected_) << connected_.error().message; }
  Peer& peer() { return *connected_; }
  json run(const json& arguments) {
    const auto process = peer().call("run", arguments);
    EXPECT_TRUE(process) << process.error().message;
    return process ? process->at("process") : json();
  }

  Program program_;
  peer::PeerResult<Peer> connected_;
};

TEST_F(AgentRun, ReportsOutputAndExitStatus) {
  const Course course =
      follow(peer(), run({{"argv", {"sh", "-c", "cat; pwd; printf \"$GREETING\\000\\377\" >&2; exit 3"}},
                          {"stdin", peer::to_hex("input\n")},
                          {"env", {"GREETING=hello"}},
                          {"directory", "/"}}));
  EXPECT_EQ(course.out, "input\n/\n");
  EXPECT_EQ(course.err, std::string("hello\0\xff", 7));
  EXPECT_EQ(course.end.at("type"), "exited");
  EXPECT_EQ(course.end.at("status"), 3);
  EXPECT_EQ(course.end.at("dropped"), 0);
}

TEST_F(AgentRun, SendsInputInPieces) {
  const json process = run({{"argv", {"cat"}}, {"stdin_open", true}});
  ASSERT_TRUE(peer().call("stdin", {{"process", process}, {"data", peer::to_hex("one ")}}));
  const auto said = peer().next_event(10s);
  ASSERT_TRUE(said && *said);
  EXPECT_EQ(text_of((*said)->body.at("data")), "one ");
  ASSERT_TRUE(peer().call("stdin", {{"process", process}, {"data", peer::to_hex("two")}, {"close", true}}));
  EXPECT_EQ(follow(peer(), process).out, "two");
  EXPECT_EQ(peer().call("stdin", {{"process", process}, {"data", "00"}}).error().name, "EPIPE");
}

TEST_F(AgentRun, UnreadInputIsLimited) {
  const json process = run({{"argv", {"sleep", "1000"}}, {"stdin_open", true}});
  const std::string much = peer::to_hex(std::string(1 << 20, 'x'));
  ASSERT_TRUE(peer().call("stdin", {{"process", process}, {"data", much}}));
  EXPECT_EQ(peer().call("stdin", {{"process", process}, {"data", much}}).error().name, "ENOBUFS");
  ASSERT_TRUE(peer().call("kill", {{"process", process}, {"signal", "kill"}}));
  const json end = follow(peer(), process).end;
  EXPECT_EQ(end.at("type"), "killed");
  EXPECT_EQ(end.at("signal"), SIGKILL);
  EXPECT_EQ(end.at("name"), "kill");
}

TEST_F(AgentRun, ReportedOutputIsLimited) {
  const Course course = follow(peer(), run({{"argv", {"head", "-c", "100000", "/dev/zero"}}, {"most_output", 1000}}));
  EXPECT_EQ(course.out.size(), 1000);
  EXPECT_EQ(course.end.at("dropped"), 99'000);
}

TEST_F(AgentRun, ReasonOfFailedStartIsReported) {
  const auto message = [&](const json& arguments) { return to_string(peer().call("run", arguments).error()); };
  EXPECT_EQ(message({{"argv", {"/no/such/program"}}}),
            "run: argv: cannot run /no/such/program: No such file or directory (ENOENT)");
  EXPECT_EQ(message({{"argv", {"true"}}, {"directory", "/nowhere"}}),
            "run: argv: cannot run true in /nowhere: No such file or directory (ENOENT)");
  EXPECT_THAT(message({{"argv", json::array()}}), HasSubstr("argv: contains no program (EINVAL)"));
  EXPECT_THAT(message({{"argv", {"true"}}, {"env", {"NAME"}}}),
              HasSubstr("env: must be an array of strings NAME=VALUE"));
  EXPECT_THAT(message({{"argv", {"true"}}, {"stdout", "x"}}), HasSubstr("stdout"));
}

/// A process that is not a child, monitored with a pidfd.
class Watched {
 public:
  explicit Watched(pid_t pid) : end_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  ~Watched() { ::close(end_); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  /// True if the process exits within that time.
  [[nodiscard]] bool ended(std::chrono::milliseconds within) const {
    pollfd wait{end_, POLLIN, 0};
    return ::poll(&wait, 1, static_cast<int>(within.count())) == 1;
  }

 private:
  int end_;
};

TEST_F(AgentRun, LostControllerKillsItsPrograms) {
  // The shell's child is in its process group.
  const auto begun = peer().call("run", {{"argv", {"sh", "-c", "sleep 1000 & echo $!; wait"}}});
  ASSERT_TRUE(begun) << begun.error().message;
  const auto said = peer().next_event(10s);
  ASSERT_TRUE(said && *said);
  const Watched shell(begun->at("pid").get<pid_t>()), child(std::stoi(text_of((*said)->body.at("data"))));
  EXPECT_FALSE(shell.ended(0ms));
  EXPECT_FALSE(child.ended(0ms));
  peer().close();
  EXPECT_TRUE(shell.ended(5s));
  EXPECT_TRUE(child.ended(5s));
}

TEST_F(AgentRun, NumberOfProcessesIsLimited) {
  json last;
  for (int i = 0; i < 32; ++i) last = run({{"argv", {"sleep", "1000"}}});
  EXPECT_EQ(peer().call("run", {{"argv", {"true"}}}).error().name, "EAGAIN");
  ASSERT_TRUE(peer().call("destroy", {{"object", last}}));
  EXPECT_TRUE(peer().call("run", {{"argv", {"true"}}}));
}

}  // namespace
}  // namespace rdmawire
