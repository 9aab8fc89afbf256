#include "conformance/lab/run_directory.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "conformance/lab/image.hpp"

namespace rdmawire::lab {
namespace {

namespace fs = std::filesystem;

class RunDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rdtXXXXXX";
    base_ = ::mkdtemp(name);
    ::setenv("XDG_RUNTIME_DIR", base_.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(base_); }
  fs::path base_;
};

TEST_F(RunDirectoryTest, IsPrivateAndRemovedAtEnd) {
  fs::path path;
  {
    auto directory = RunDirectory::create("bench");
    ASSERT_TRUE(directory) << directory.error().message;
    path = directory->path();
    EXPECT_EQ(path, base_ / "rdmawire/lab/bench");
    struct stat found {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700U);
    std::ofstream(path / "file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(RunDirectoryTest, NameIsUnique) {
  const auto first = RunDirectory::create("bench");
  ASSERT_TRUE(first);
  const auto second = RunDirectory::create("bench");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, LabError::Kind::busy);
  EXPECT_THAT(second.error().message, testing::HasSubstr("bench"));
  EXPECT_TRUE(fs::exists(first->path()));
}

TEST_F(RunDirectoryTest, UnnamedLabsGetFreeName) {
  const auto first = RunDirectory::create("");
  const auto second = RunDirectory::create("");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->name(), "lab");
  EXPECT_EQ(second->name(), "lab2");
  const auto living = RunDirectory::living();
  ASSERT_TRUE(living);
  EXPECT_EQ(living->size(), 2U);
}

TEST_F(RunDirectoryTest, DirectoryOfKilledLabIsRemoved) {
  const auto alive = RunDirectory::create("alive");
  ASSERT_TRUE(alive);
  const fs::path dead = alive->path().parent_path() / "dead";
  fs::create_directories(dead / "1");
  std::ofstream(dead / "1/console.log") << "x";
  const auto living = RunDirectory::living();
  ASSERT_TRUE(living);
  ASSERT_EQ(living->size(), 1U);
  EXPECT_EQ((*living)[0].name, "alive");
  EXPECT_FALSE(fs::exists(dead));
}

TEST_F(RunDirectoryTest, InvalidNamesAreRejected) {
  for (const char* name : {"..", "a/b", "-x", ".hidden", "name with spaces", "0123456789012345678901234"}) {
    const auto directory = RunDirectory::create(name);
    ASSERT_FALSE(directory) << name;
    EXPECT_EQ(directory.error().kind, LabError::Kind::usage);
  }
}

TEST_F(RunDirectoryTest, FolderAccessibleToOthersIsRejected) {
  fs::create_directories(base_ / "rdmawire");
  ::chmod((base_ / "rdmawire").c_str(), 0777);
  const auto directory = RunDirectory::create("bench");
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, testing::HasSubstr("mode 700"));
}

TEST_F(RunDirectoryTest, LongFolderIsReplacedForSocketPaths) {
  const fs::path deep = base_ / std::string(80, 'x');
  fs::create_directories(deep);
  ::setenv("XDG_RUNTIME_DIR", deep.c_str(), 1);
  const auto folder = runtime_folder();
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->string(), "/tmp/rdmawire-" + std::to_string(::getuid()) + "/lab");
}

/// Sets an environment variable until the end of the test. Null: unsets it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Environment() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Cache, IsNotInASharedDirectoryWithoutHome) {
  const Environment cache("XDG_CACHE_HOME", nullptr);
  for (const char* home : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Environment set("HOME", home);
    EXPECT_NE(default_cache().string().substr(0, 12), "/tmp/.cache/") << default_cache();
    EXPECT_TRUE(default_cache().is_absolute());
  }
}

TEST_F(RunDirectoryTest, CacheOfAnotherUserIsRefused) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to change the owner";
  const fs::path cache = base_ / "cache";
  fs::create_directories(cache);
  ASSERT_EQ(::chown(cache.c_str(), 65534, 65534), 0);
  ImageOptions options;
  options.cache = cache;
  const auto image = provide_image(options);
  ASSERT_FALSE(image);
  EXPECT_THAT(image.error().message, testing::HasSubstr("must belong to this user"));
}

}  // namespace
}  // namespace rdmawire::lab
