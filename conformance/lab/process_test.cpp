#include "conformance/lab/process.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace rdmawire::lab {
namespace {

std::string read_all(int descriptor) {
  std::string text;
  char buffer[512];
  for (ssize_t got; (got = ::read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reading = Descriptor(ends[0]);
    writing = Descriptor(ends[1]);
  }
  Descriptor reading, writing;
};

TEST(Process, ChildHasExactlyConfiguredDescriptors) {
  Pipe pipe;
  Process::Options options;
  options.argv = {"sh", "-c", "echo \"$WORD\" >&5; ls /proc/self/fd | tr '\\n' ' ' >&5"};
  options.descriptors = {{pipe.writing.get(), 5}};
  options.environment = {{"WORD", "hello"}};
  auto process = Process::start(options);
  ASSERT_TRUE(process) << process.error().message;
  pipe.writing.reset();
  EXPECT_EQ(read_all(pipe.reading.get()), "hello\n0 1 2 3 5 ") << "3 is the directory opened by ls";
}

TEST(Process, FailedStartReportsReason) {
  Process::Options options;
  options.argv = {"no-such-program-here"};
  const auto process = Process::start(options);
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().kind, LabError::Kind::missing);
  options.argv = {"/bin/true"};
  options.directory = "/no/such/place";
  const auto other = Process::start(options);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, testing::HasSubstr("No such file"));
}

TEST(Process, ExitStatusIsReported) {
  Process::Options options;
  options.argv = {"sh", "-c", "exit 7"};
  auto process = Process::start(options);
  ASSERT_TRUE(process);
  pollfd waiting{process->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 10'000), 1);
  ASSERT_TRUE(process->status());
  EXPECT_EQ(describe_status(*process->status()), "exit status 7");
}

TEST(Process, DestructorKillsProcessGroup) {
  Pipe pipe;
  {
    Process::Options options;
    options.argv = {"sh", "-c", "sleep 1000 & sleep 1000 & echo up; wait"};
    options.descriptors = {{pipe.writing.get(), 1}};
    auto process = Process::start(options);
    ASSERT_TRUE(process);
    pipe.writing.reset();
    char buffer[8];
    ASSERT_EQ(::read(pipe.reading.get(), buffer, sizeof buffer), 3);
  }
  EXPECT_EQ(read_all(pipe.reading.get()), "") << "the pipe ends when all processes have closed it";
}

TEST(Process, ChildOutlivesStartingThread) {
  Process process;
  std::thread([&process] {
    Process::Options options;
    options.argv = {"sleep", "1000"};
    auto started = Process::start(options);
    ASSERT_TRUE(started);
    process = std::move(*started);
  }).join();
  pollfd waiting{process.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 200), 0) << "the child has exited";
}

TEST(Process, ChildDiesWithParentProcess) {
  Pipe pipe;
  const pid_t child = ::fork();
  if (child == 0) {
    Process::Options options;
    options.argv = {"sh", "-c", "echo up; exec sleep 1000"};
    options.descriptors = {{pipe.writing.get(), 1}};
    const auto process = Process::start(options);
    ::pause();
    ::_exit(0);
  }
  pipe.writing.reset();
  char buffer[8];
  ASSERT_EQ(::read(pipe.reading.get(), buffer, sizeof buffer), 3);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(read_all(pipe.reading.get()), "");
}

}  // namespace
}  // namespace rdmawire::lab
