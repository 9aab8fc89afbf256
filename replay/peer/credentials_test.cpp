#include "replay/peer/credentials.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace rdmawire::peer {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

const std::string digits(64, 'a');

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rdmawire-credentials-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory = name;
  }
  void TearDown() override { fs::remove_all(directory); }
  static unsigned mode(const std::string& path) {
    struct stat what {};
    return ::stat(path.c_str(), &what) == 0 ? what.st_mode & 07777U : 0;
  }
  static std::string error_of(const tl::expected<std::vector<Key>, std::string>& keys) {
    return keys ? "none" : keys.error();
  }
  std::string directory;
};

TEST(Credentials, LinesAreParsed) {
  const auto keys = parse_keys("# comment\n\none " + digits + "\r\ntwo-2_2.x 00" + std::string(62, 'F'));
  ASSERT_TRUE(keys) << keys.error();
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->at(0).id, "one");
  EXPECT_EQ(keys->at(0).bytes[31], 0xaa);
  EXPECT_EQ(keys->at(1).id, "two-2_2.x");
  EXPECT_EQ(keys->at(1).bytes[0], 0);
  EXPECT_EQ(keys->at(1).bytes[1], 0xff);
}

TEST(Credentials, InvalidLinesAreReportedWithoutTheirContents) {
  const std::string expected = "expected a key ID, a space, and 64 hexadecimal digits";
  const std::vector<std::string> lines = {"one",
                                          "one ",
                                          " ",
                                          "one  ",
                                          "my password",
                                          "one " + digits + "a",
                                          "one " + digits.substr(1),
                                          "one " + digits + " ",
                                          "a/b " + digits,
                                          std::string(65, 'i') + " " + digits,
                                          "one " + std::string(63, 'a') + "g"};
  for (const std::string& line : lines) {
    const auto keys = parse_keys("one " + digits + "\n" + (line.starts_with("one") ? "x" + line : line) + "\n");
    ASSERT_FALSE(keys) << line;
    EXPECT_EQ(keys.error(), "line 2: " + expected);
  }
  EXPECT_EQ(parse_keys("a " + digits + "\na " + digits).error(), "line 2: the key ID a occurs twice");
  EXPECT_EQ(parse_keys("# nothing\n").error(), "contains no key; use rdmawire-agent --make-credentials");
}

TEST(Credentials, KeysAreRandom) {
  const auto one = make_key(), two = make_key();
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->bytes, two->bytes);
  EXPECT_NE(one->id, two->id);
  EXPECT_TRUE(is_key_id(one->id)) << one->id;
}

TEST_F(Files, MadeCredentialsArePrivateAndMatch) {
  const std::string target = directory + "/new";
  const mode_t before = ::umask(0);
  const auto made = make_credentials(target);
  ::umask(before);
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(mode(target), 0700U);
  EXPECT_EQ(mode(made->agent_file), 0600U);
  EXPECT_EQ(mode(made->controller_file), 0600U);
  const auto agent = read_keys(made->agent_file), controller = read_keys(made->controller_file);
  ASSERT_TRUE(agent && controller);
  ASSERT_EQ(agent->size(), 1U);
  ASSERT_EQ(controller->size(), 1U);
  EXPECT_EQ(agent->at(0).bytes, controller->at(0).bytes);
  EXPECT_EQ(agent->at(0).id, made->key_id);
  EXPECT_EQ(std::distance(fs::directory_iterator(target), fs::directory_iterator()), 2);
}

TEST_F(Files, SecondKeyKeepsTheFirstOneValidForTheAgent) {
  const auto first = make_credentials(directory), second = make_credentials(directory);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->earlier_keys, 0U);
  EXPECT_EQ(second->earlier_keys, 1U);
  const auto agent = read_keys(second->agent_file), controller = read_keys(second->controller_file);
  ASSERT_TRUE(agent && controller);
  ASSERT_EQ(agent->size(), 2U);
  EXPECT_EQ(agent->at(0).id, first->key_id);
  EXPECT_EQ(agent->at(1).id, second->key_id);
  ASSERT_EQ(controller->size(), 1U);
  EXPECT_EQ(controller->at(0).id, second->key_id);
}

TEST_F(Files, CredentialsAreNotMadeInADirectoryThatOthersCanWrite) {
  fs::permissions(directory, fs::perms::group_write, fs::perm_options::add);
  EXPECT_THAT(make_credentials(directory).error(), HasSubstr("other users can write to this directory (mode 0720)"));
  EXPECT_THAT(make_credentials("/nowhere/a").error(), HasSubstr("/nowhere/a: No such file or directory"));
  std::ofstream(directory + "/file") << "x";
  EXPECT_THAT(make_credentials(directory + "/file").error(), HasSubstr("not a directory"));
}

TEST_F(Files, UnreadableEarlierKeysAreNotReplaced) {
  std::ofstream(directory + "/agent.keys") << "damaged\n";
  fs::permissions(directory + "/agent.keys", fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(make_credentials(directory).error(), HasSubstr("agent.keys: line 1"));
  EXPECT_FALSE(fs::exists(directory + "/controller.key"));
}

TEST_F(Files, FilesThatOthersCanAccessAreRejected) {
  const std::string path = directory + "/key";
  std::ofstream(path) << "one " << digits << "\n";
  for (const unsigned bits : {0604U, 0602U, 0601U, 0620U, 0610U, 0660U, 0644U}) {
    ASSERT_EQ(::chmod(path.c_str(), bits), 0);
    EXPECT_EQ(error_of(read_keys(path)),
              fmt::format("{}: other users can access this file (mode {:04o}); use chmod 600", path, bits));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  // A file owned by root may be readable by its group, as the credentials of a service are.
  EXPECT_EQ(error_of(read_keys(path)) == "none", ::geteuid() == 0);
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_EQ(error_of(read_keys(path)), "none");
}

TEST_F(Files, MissingAndUnsuitableFilesAreReported) {
  EXPECT_EQ(error_of(read_keys("/nowhere/key")), "/nowhere/key: No such file or directory");
  EXPECT_EQ(error_of(read_keys(directory)), directory + ": not a regular file");
  const std::string path = directory + "/key";
  std::ofstream(path) << std::string(70'000, '#');
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of(read_keys(path)), path + ": exceeds 65536 bytes");
}

}  // namespace
}  // namespace rdmawire::peer
