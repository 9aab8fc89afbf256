#include "captures/io/output_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "captures/io/test_support.hpp"
#include "captures/io/writer.hpp"

namespace rdmawire::captures {
namespace {

using testing_support::TemporaryDirectory;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t files_in(const TemporaryDirectory& directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) ++count;
  return count;
}

TEST(OutputFile, HasNoNameUntilItIsComplete) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x");
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file) << file.error();
  EXPECT_TRUE(file->write("new"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(file->commit());
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(files_in(directory), 1U);
}

TEST(OutputFile, KeepsTheOldFileWithoutCommit) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x");
  ASSERT_TRUE(write_file(path, "old"));
  {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file && file->write("new"));
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(files_in(directory), 1U);
}

TEST(OutputFile, IsAbsentAfterSigkill) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    auto file = OutputFile::create(directory.file("x"));
    static_cast<void>(file && file->write("part"));
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(directory.file("x")));
}

TEST(OutputFile, KeepsPermissionsAndSymbolicLinks) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x"), link = directory.file("link");
  ASSERT_TRUE(write_file(path, "old"));
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_EQ(::symlink("x", link.c_str()), 0);
  ASSERT_TRUE(write_file(link, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(contents(path), "new");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
  // The target of a symbolic link need not exist.
  ASSERT_EQ(::symlink("later", directory.file("dangling").c_str()), 0);
  ASSERT_TRUE(write_file(directory.file("dangling"), "new"));
  EXPECT_EQ(contents(directory.file("later")), "new");
}

TEST(OutputFile, NewFileHasUsualPermissions) {
  const TemporaryDirectory directory;
  const mode_t old = ::umask(027);
  EXPECT_TRUE(write_file(directory.file("x"), "new"));
  ::umask(old);
  struct stat status {};
  ASSERT_EQ(::stat(directory.file("x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST(OutputFile, WritesDevicesDirectly) {
  EXPECT_TRUE(write_file("/dev/null", "x"));
  const auto full = write_file("/dev/full", "x");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error(), "cannot write /dev/full: No space left on device");
}

TEST(OutputFile, ReportsImpossiblePaths) {
  const TemporaryDirectory directory;
  const std::string missing = directory.file("no/x");
  EXPECT_EQ(write_file(missing, "").error(), "cannot write " + missing + ": No such file or directory");
  EXPECT_EQ(write_file(directory.path().string(), "").error(),
            "cannot write " + directory.path().string() + ": Is a directory");
  EXPECT_EQ(write_file(directory.file("no\x1b/x"), "").error().find('\x1b'), std::string::npos);
}

/// Limits the size of files that this process writes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit now{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &old_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
};

TEST(OutputFile, KeepsTheOldFileWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x");
  ASSERT_TRUE(write_file(path, "old"));
  const FileSizeLimit limit(1000);
  EXPECT_EQ(write_file(path, std::string(2000, 'x')).error(), "cannot write " + path + ": File too large");
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(files_in(directory), 1U);
}

TEST(WriterCompleteOnly, DiscardsTheCaptureWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcap");
  const FileSizeLimit limit(10'000);
  auto writer = Writer::create(path, {.complete_only = true});
  ASSERT_TRUE(writer && writer->add_interface({}));
  const std::vector<std::uint8_t> bytes(1000, 1);
  Record record;
  record.bytes = bytes;
  record.wire_length = 1000;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(writer->write(record));
  const auto closed = writer->close();
  ASSERT_FALSE(closed);
  EXPECT_EQ(to_string(closed.error()), path + ": write error: File too large; stopped after 20 packets");
  EXPECT_EQ(files_in(directory), 0U);
}

TEST(WriterCompleteOnly, NamesTheCaptureInClose) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcap.gz");
  auto writer = Writer::create(path, {.complete_only = true});
  ASSERT_TRUE(writer && writer->add_interface({}));
  EXPECT_EQ(files_in(directory), 0U);
  EXPECT_TRUE(writer->close());
  EXPECT_TRUE(Reader::open(path));
}

TEST(CheckOutput, RejectsAnyNameOfAnInput) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x"), hard = directory.file("hard"), soft = directory.file("soft");
  ASSERT_TRUE(write_file(path, "capture"));
  ASSERT_EQ(::link(path.c_str(), hard.c_str()), 0);
  ASSERT_EQ(::symlink(path.c_str(), soft.c_str()), 0);
  const std::vector<std::string> inputs{"-", path};
  EXPECT_EQ(check_output(path, inputs).error(), path + " is the input file; choose another file");
  for (const std::string& name : {hard, soft, directory.file(".") + "/x"})
    EXPECT_EQ(check_output(name, inputs).error(), name + " is the input file " + path + "; choose another file");
  EXPECT_TRUE(check_output(directory.file("other"), inputs));
  EXPECT_TRUE(check_output("/dev/null", std::vector<std::string>{"/dev/null"}));
}

}  // namespace
}  // namespace rdmawire::captures
