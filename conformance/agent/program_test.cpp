// The agent program and its client, for commands that require no RDMA device.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "replay/peer/peer.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX requires the declaration
#include "replay/rpc/message.hpp"

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
  explicit Program(std::vector<std::string> arguments = {}) : Program(std::move(arguments), "unix:") {}
  /// `endpoint`: "unix:" for a socket in a new directory, or "tcp:HOST:0".
  Program(std::vector<std::string> arguments, std::string endpoint) {
    std::string name = (std::filesystem::temp_directory_path() / "rdmawire-agent-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    if (endpoint == "unix:") endpoint += socket();
    arguments.insert(arguments.begin(), {RDMAWIRE_AGENT, "--listen", endpoint});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::array<int, 2> out{}, errors{};
    EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(errors.data(), O_CLOEXEC), 0);
    errors_ = peer::Descriptor(errors[0]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    ::close(errors[1]);
    // The program prints its endpoint when it listens.
    std::array<char, 256> said{};
    EXPECT_GT(::read(out[0], said.data(), said.size() - 1), 0);
    ::close(out[0]);
    const std::string line = said.data();
    address_ = line.substr(line.rfind(' ') + 1, line.find('\n') - line.rfind(' ') - 1);
  }
  ~Program() {
    end();
    std::filesystem::remove_all(folder_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] std::string socket() const { return folder_ + "/agent"; }
  /// The endpoint that the program printed.
  [[nodiscard]] const std::string& address() const { return address_; }
  peer::PeerResult<Peer> connect(Options options = {}) const { return Peer::connect(address_, options); }
  /// Returns the next text of standard error. Empty: none was printed in time.
  [[nodiscard]] std::string error_line() const {
    pollfd wait{errors_.get(), POLLIN, 0};
    std::array<char, 4096> bytes{};
    if (::poll(&wait, 1, 10'000) != 1) return {};
    const ssize_t got = ::read(errors_.get(), bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  /// Stops the program and returns its exit status.
  int end() {
    if (pid_ == 0) return 0;
    ::kill(pid_, SIGTERM);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  std::string folder_, address_;
  peer::Descriptor errors_;
  pid_t pid_ = 0;
};

/// Credentials that rdmawire-agent made, for the duration of a test.
class Credentials {
 public:
  Credentials() {
    std::string name = (std::filesystem::temp_directory_path() / "rdmawire-agent-keys-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    make();
  }
  ~Credentials() { std::filesystem::remove_all(folder_); }
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  /// Makes another key.
  void make() const {
    const std::string command = fmt::format("'{}' --make-credentials '{}' >/dev/null", RDMAWIRE_AGENT, folder_);
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  [[nodiscard]] std::string agent() const { return folder_ + "/agent.keys"; }
  [[nodiscard]] std::string controller() const { return folder_ + "/controller.key"; }
  [[nodiscard]] std::string copy_of_controller() const {
    const std::string copy = folder_ + "/copy";
    std::filesystem::copy_file(controller(), copy, std::filesystem::copy_options::overwrite_existing);
    return copy;
  }

 private:
  std::string folder_;
};

Options with_key(const std::string& file) {
  Options options;
  options.credentials = file;
  options.timeout = 10s;
  return options;
}

/// A connection without the client, which reads lines.
class Raw {
 public:
  explicit Raw(const std::string& address) : stream_(peer::open_channel(address, 5s).value()) {}
  void send(const std::string& line) { (void)!::send(stream_.get(), line.data(), line.size(), MSG_NOSIGNAL); }
  /// The next line, empty at the end of the connection. nullopt: nothing arrives in time.
  std::optional<std::string> line(std::chrono::milliseconds within = 10s) {
    while (text_.find('\n') == std::string::npos) {
      pollfd wait{stream_.get(), POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(within.count())) != 1) return std::nullopt;
      std::array<char, 4096> bytes{};
      const ssize_t got = ::read(stream_.get(), bytes.data(), bytes.size());
      if (got <= 0) return "";
      text_.append(bytes.data(), static_cast<std::size_t>(got));
    }
    std::string first = text_.substr(0, text_.find('\n'));
    text_.erase(0, first.size() + 1);
    return first;
  }

 private:
  peer::Descriptor stream_;
  std::string text_;
};

std::string text_of(const json& bytes) {
  const auto read = rpc::from_hex(bytes.get<std::string>()).value_or(rpc::ByteVector{'?'});
  return {read.begin(), read.end()};
}
std::string bytes_of(std::string_view text) { return rpc::to_hex({text.begin(), text.end()}); }

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

TEST(AgentProgram, MadeCredentialsConnectBothSides) {
  const Credentials credentials, other;
  Program program({"--credentials", credentials.agent()}, "tcp:127.0.0.1:0");
  auto peer = program.connect(with_key(credentials.controller()));
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_TRUE(peer->call("ping"));
  EXPECT_TRUE(peer->hello().contains("kernel"));
}

TEST(AgentProgram, RotationKeepsTheEarlierKeyUntilItsLineIsDeleted) {
  const Credentials credentials;
  const std::string first = credentials.copy_of_controller();
  credentials.make();
  {
    Program program({"--credentials", credentials.agent()}, "tcp:127.0.0.1:0");
    EXPECT_TRUE(program.connect(with_key(first)));
    EXPECT_TRUE(program.connect(with_key(credentials.controller())));
  }
  std::filesystem::copy_file(credentials.controller(), credentials.agent(),
                             std::filesystem::copy_options::overwrite_existing);
  Program program({"--credentials", credentials.agent()}, "tcp:127.0.0.1:0");
  EXPECT_FALSE(program.connect(with_key(first)));
  EXPECT_TRUE(program.connect(with_key(credentials.controller())));
}

TEST(AgentProgram, EveryFailureIsOneSentenceOnBothSides) {
  const Credentials credentials, other;
  struct Failure {
    bool agent_has_credentials;
    std::string key_file, controller_says, agent_says;
  };
  // Forged credentials: the ID of the agent's key with another key.
  const std::string forged = credentials.copy_of_controller();
  std::string text;
  {
    std::ifstream file(forged);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  text.replace(text.size() - 9, 8, "00000000");
  std::ofstream(forged) << text;
  const Failure failures[] = {
      {true, "", "the agent requires TLS; specify the credentials (EACCES)",
       "the controller uses no TLS; specify its credentials"},
      {true, other.controller(), ": its credentials do not contain the same key (EACCES)", "unknown key ID "},
      {true, forged, ": its credentials do not contain the same key (EACCES)", " is wrong"},
      {false, credentials.controller(), "the agent uses no TLS; start it with --credentials (EACCES)",
       "the controller uses TLS, but the agent was started without --credentials"},
      {true, credentials.agent() + "x", "credentials: " + credentials.agent() + "x: No such file or directory (EINVAL)",
       ""},
  };
  for (const Failure& failure : failures) {
    Program program(failure.agent_has_credentials ? std::vector<std::string>{"--credentials", credentials.agent()}
                                                  : std::vector<std::string>{},
                    "tcp:127.0.0.1:0");
    const auto peer = program.connect(with_key(failure.key_file));
    ASSERT_FALSE(peer) << failure.agent_says;
    EXPECT_THAT(to_string(peer.error()), HasSubstr(failure.controller_says));
    EXPECT_EQ(to_string(peer.error()).find('\n'), std::string::npos);
    if (failure.agent_says.empty()) continue;
    const std::string line = program.error_line();
    EXPECT_THAT(line, ::testing::StartsWith("rdmawire-agent: tcp:127.0.0.1:"));
    EXPECT_THAT(line, HasSubstr(": rejected: "));
    EXPECT_THAT(line, HasSubstr(failure.agent_says));
  }
}

constexpr const char* greeting = "{\"id\":1,\"do\":\"hello\",\"protocol\":1}\n";

TEST(AgentProgram, FailedAttemptEndsItsConnection) {
  const Credentials credentials;
  Program program({"--credentials", credentials.agent()}, "tcp:127.0.0.1:0");
  Raw attacker(program.address());
  std::string all;
  for (int i = 0; i < 1000; ++i) all += greeting;
  attacker.send(all);
  EXPECT_THAT(attacker.line().value_or(""), HasSubstr("the agent requires TLS"));
  EXPECT_EQ(attacker.line(), "") << "the connection continues after a failed attempt";
}

TEST(AgentProgram, AttemptsOfManyConnectionsAreDelayed) {
  const Credentials credentials;
  Program program({"--credentials", credentials.agent()}, "tcp:127.0.0.1:0");
  const auto begin = std::chrono::steady_clock::now();
  int processed = 0;
  for (int i = 0; i < 1000; ++i) {
    Raw attacker(program.address());
    attacker.send(greeting);
    // A connection that waits for its attempt receives no response.
    if (attacker.line(processed < 3 ? 10s : 1ms).value_or("").find("EACCES") != std::string::npos) ++processed;
  }
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(processed, 3);
  EXPECT_LE(processed, 6 + static_cast<int>(took / 4)) << took << " s";
  // A controller with valid credentials also has to wait, but is then accepted.
  auto controller = program.connect(with_key(credentials.controller()));
  ASSERT_TRUE(controller) << controller.error().message;
}

TEST(AgentProgram, IdleConnectionsDoNotPreventAController) {
  const Credentials credentials;
  for (const bool secure : {false, true}) {
    Program program(
        secure ? std::vector<std::string>{"--credentials", credentials.agent()} : std::vector<std::string>{},
        "tcp:127.0.0.1:0");
    std::vector<std::unique_ptr<Raw>> idle;
    for (int i = 0; i < 64; ++i) idle.push_back(std::make_unique<Raw>(program.address()));
    auto controller = program.connect(with_key(secure ? credentials.controller() : ""));
    ASSERT_TRUE(controller) << controller.error().message;
    for (int i = 0; i < 64; ++i) idle.push_back(std::make_unique<Raw>(program.address()));
    EXPECT_TRUE(controller->call("ping"));
  }
}

TEST(AgentProgram, UnsuitableCredentialsAreReportedAtTheStart) {
  const Credentials credentials;
  const auto output = [](const std::string& arguments) {
    const std::string command = fmt::format("'{}' {} 2>&1", RDMAWIRE_AGENT, arguments);
    std::string text;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    const int status = ::pclose(pipe);
    return fmt::format("{}: {}", WEXITSTATUS(status), text);
  };
  EXPECT_THAT(output("--listen tcp:0.0.0.0:0"),
              HasSubstr("tcp:0.0.0.0:0 is reachable from other hosts and requires --credentials"));
  EXPECT_EQ(output("--listen tcp:127.0.0.1:0 --credentials /nowhere/keys"),
            "3: rdmawire-agent: --credentials: /nowhere/keys: No such file or directory\n");
  std::filesystem::permissions(credentials.agent(), std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(output("--listen tcp:127.0.0.1:0 --credentials " + credentials.agent()),
            "3: rdmawire-agent: --credentials: " + credentials.agent() +
                ": other users can access this file (mode 0604); use chmod 600\n");
  EXPECT_THAT(output("--listen unix:/tmp/x --credentials " + credentials.agent()),
              HasSubstr("--credentials requires an endpoint tcp:HOST:PORT"));
  EXPECT_THAT(output("--make-credentials /nowhere/a"),
              HasSubstr("3: rdmawire-agent: --make-credentials: /nowhere/a: "));
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
                          {"stdin", bytes_of("input\n")},
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
  ASSERT_TRUE(peer().call("stdin", {{"process", process}, {"data", bytes_of("one ")}}));
  const auto said = peer().next_event(10s);
  ASSERT_TRUE(said && *said);
  EXPECT_EQ(text_of((*said)->body.at("data")), "one ");
  ASSERT_TRUE(peer().call("stdin", {{"process", process}, {"data", bytes_of("two")}, {"close", true}}));
  EXPECT_EQ(follow(peer(), process).out, "two");
  EXPECT_EQ(peer().call("stdin", {{"process", process}, {"data", "00"}}).error().name, "EPIPE");
}

TEST_F(AgentRun, UnreadInputIsLimited) {
  const json process = run({{"argv", {"sleep", "1000"}}, {"stdin_open", true}});
  const std::string much = bytes_of(std::string(1 << 20, 'x'));
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
  EXPECT_THAT(message({{"argv", json::array()}}), HasSubstr("argv: requires at least 1 entry (EINVAL)"));
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
  // The shell starts a child, which is in the shell's process group.
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
