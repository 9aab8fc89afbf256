#include "conformance/lab/cpio.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rdmawire::lab {
namespace {

TEST(Cpio, ArchiveHasKernelFormat) {
  Cpio cpio;
  cpio.file("a", "hello");
  const std::string archive = std::move(cpio).finish();
  EXPECT_EQ(archive.substr(0, 6), "070701");
  EXPECT_EQ(archive.substr(14, 8), "000081a4") << "file with mode rw-r--r--";
  EXPECT_EQ(archive.substr(22, 16), "0000000000000000") << "root's";
  EXPECT_EQ(archive.substr(54, 8), "00000005") << "bytes";
  EXPECT_EQ(archive.substr(94, 8), "00000002") << "length of the name with terminator";
  EXPECT_EQ(archive.substr(110, 2), std::string("a\0", 2));
  EXPECT_EQ(archive.substr(112, 8), std::string("hello\0\0\0", 8));
  EXPECT_EQ(archive.substr(120, 6), "070701");
  EXPECT_EQ(archive.substr(120 + 110, 11), std::string("TRAILER!!!\0", 11));
  EXPECT_EQ(archive.size() % 512, 0U);
}

TEST(Cpio, CpioProgramExtractsArchive) {
  if (std::system("cpio --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "requires the program cpio";
  const auto folder = std::filesystem::temp_directory_path() / ("cpio_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  Cpio cpio;
  cpio.directory("lib");
  cpio.file("lib/odd", std::string(4097, 'x'), 0755);
  cpio.file("lab.conf", "name='guest'\n");
  std::ofstream(folder / "archive", std::ios::binary) << std::move(cpio).finish();
  EXPECT_EQ(std::system(("cd " + folder.string() + " && cpio -id --quiet <archive").c_str()), 0);
  EXPECT_EQ(std::filesystem::file_size(folder / "lib/odd"), 4097U);
  EXPECT_NE(std::filesystem::status(folder / "lib/odd").permissions() & std::filesystem::perms::owner_exec,
            std::filesystem::perms::none);
  EXPECT_EQ(std::filesystem::file_size(folder / "lab.conf"), 13U);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rdmawire::lab
