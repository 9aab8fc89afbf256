#include "conformance/report/package.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace rdmawire::conformance {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PackageTest : public testing::Test {
 protected:
  PackageTest() : directory_(fs::path(testing::TempDir()) / ("package_test." + std::to_string(::getpid()))) {
    fs::create_directories(directory_ / "captures");
    write("report.json", "{}\n");
    write("captures/a.pcapng", "frames");
    report_.device = "lab:rxe";
    report_.details = "rxe0";
    report_.seed = 5;
  }
  ~PackageTest() override { fs::remove_all(directory_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }
  void make(const SignatureKey* key = nullptr) {
    auto package = Package::begin(directory_, false);
    ASSERT_TRUE(package) << package.error();
    const auto finished = package->finish(report_, {{"parameters", {{"repeat", 1}}}}, key);
    ASSERT_TRUE(finished) << finished.error();
    foreign_ = package->foreign();
  }
  /// "modified captures/a.pcapng", …
  [[nodiscard]] std::vector<std::string> problems() const {
    const auto check = verify_package(directory_);
    if (!check) return {check.error()};
    std::vector<std::string> list;
    for (const FileProblem& one : check->problems) list.push_back(std::string(to_string(one.kind)) + " " + one.path);
    EXPECT_EQ(check->is_intact(), list.empty());
    return list;
  }

  Report report_;
  std::vector<std::string> foreign_;
  const fs::path directory_;
};

TEST_F(PackageTest, UnchangedPackageIsIntact) {
  make();
  EXPECT_THAT(problems(), IsEmpty());
  const auto manifest = read_manifest(directory_);
  ASSERT_TRUE(manifest) << manifest.error();
  EXPECT_TRUE(manifest->finished());
  EXPECT_EQ(manifest->seed, 5U);
  ASSERT_EQ(manifest->files.size(), 2U);
  EXPECT_EQ(manifest->files[0].path, "captures/a.pcapng");
  EXPECT_EQ(manifest->files[0].bytes, 6U);
  EXPECT_EQ(manifest->files[0].sha256, sha256_of("frames"));
  EXPECT_THAT(text_of(*verify_package(directory_)), HasSubstr("intact: 2 of 2 files are unchanged\n"));
}

TEST_F(PackageTest, EveryModifiedMissingAndAdditionalFileIsNamed) {
  make();
  write("captures/a.pcapng", "Frames");
  EXPECT_THAT(problems(), ElementsAre("modified captures/a.pcapng"));
  write("captures/b.pcapng", "more");
  fs::remove(directory_ / "report.json");
  EXPECT_THAT(problems(),
              ElementsAre("modified captures/a.pcapng", "additional captures/b.pcapng", "missing report.json"));
  EXPECT_THAT(text_of(*verify_package(directory_)),
              HasSubstr("NOT INTACT: 0 of 2 files are unchanged, 1 modified, 1 missing, 1 additional\n"));
}

TEST_F(PackageTest, SymbolicLinkIsAModification) {
  make();
  const fs::path copy = directory_.string() + ".copy";
  fs::rename(directory_ / "report.json", copy);
  fs::create_symlink(copy, directory_ / "report.json");
  EXPECT_THAT(problems(), ElementsAre("modified report.json"));
  fs::remove(copy);
  // A linked directory may contain the same files.
  fs::remove(directory_ / "report.json");
  write("report.json", "{}\n");
  fs::rename(directory_ / "captures", copy);
  fs::create_directory_symlink(copy, directory_ / "captures");
  EXPECT_THAT(problems(), ElementsAre("additional captures", "modified captures/a.pcapng"));
  fs::remove_all(copy);
}

TEST_F(PackageTest, FilesOfOthersAreReportedAndNotListed) {
  write("notes.txt", "of the lab");
  make();
  EXPECT_THAT(foreign_, ElementsAre("notes.txt"));
  EXPECT_THAT(problems(), ElementsAre("additional notes.txt"));
}

TEST_F(PackageTest, KilledRunIsUnfinished) {
  ASSERT_TRUE(Package::begin(directory_, false));
  const auto check = verify_package(directory_);
  ASSERT_TRUE(check) << check.error();
  EXPECT_FALSE(check->manifest.finished());
  EXPECT_FALSE(check->is_intact());
  EXPECT_THAT(text_of(*check), HasSubstr("UNFINISHED"));
  // The resumed run keeps the start of the first one.
  auto resumed = Package::begin(directory_, true);
  ASSERT_TRUE(resumed) << resumed.error();
  ASSERT_TRUE(resumed->finish(report_, {}, nullptr));
  EXPECT_THAT(problems(), IsEmpty());
  const auto sessions = read_manifest(directory_)->sessions;
  ASSERT_EQ(sessions.size(), 2U);
  EXPECT_THAT(sessions[0].end, IsEmpty());
}

TEST_F(PackageTest, PartialRunIsIntactButNotComplete) {
  report_.partial = "1 of 2 cases ran: interrupted";
  make();
  const auto check = verify_package(directory_);
  ASSERT_TRUE(check) << check.error();
  EXPECT_TRUE(check->is_intact());
  EXPECT_FALSE(check->is_complete());
  EXPECT_THAT(text_of(*check),
              HasSubstr("PARTIAL       1 of 2 cases ran: interrupted; continue it with rdmawire certify "
                        "--resume " +
                        directory_.string()));
  EXPECT_THAT(text_of(*check), HasSubstr("intact, PARTIAL: 2 of 2 files"));
  EXPECT_EQ(to_json(*check)["partial"], "1 of 2 cases ran: interrupted");
  EXPECT_EQ(to_json(*check)["complete"], false);
}

TEST_F(PackageTest, RemovedReportLeavesOtherFiles) {
  write("notes.txt", "of the lab");
  fs::create_directories(directory_ / "inputs");
  write("inputs/ics.json", "{}");
  make();
  write(signature_name, "x");
  EXPECT_TRUE(contains_report(directory_));
  ASSERT_TRUE(remove_report(directory_));
  EXPECT_FALSE(contains_report(directory_));
  EXPECT_TRUE(fs::exists(directory_ / "notes.txt"));
  EXPECT_FALSE(contains_report(directory_ / "none"));
  for (const char* name : {"manifest.json", "manifest.sig", "results.ndjson", "report.json", "captures/x.pcapng"}) {
    write(name, "");
    EXPECT_TRUE(contains_report(directory_)) << name;
    fs::remove(directory_ / name);
  }
}

TEST_F(PackageTest, ResumedRunContainsOnlyItsOwnInputs) {
  write("w.json", "{}");
  auto first = Package::begin(directory_, false);
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->add_input(directory_ / "w.json", "waivers.json"));
  ASSERT_TRUE(first->add_input(directory_ / "w.json", "ics.json"));
  fs::remove(directory_ / "w.json");
  auto resumed = Package::begin(directory_, true);
  ASSERT_TRUE(resumed);
  ASSERT_TRUE(resumed->add_input(directory_ / "inputs/ics.json", "ics.json"));
  ASSERT_TRUE(resumed->finish(report_, {}, nullptr));
  EXPECT_TRUE(fs::exists(directory_ / "inputs/ics.json"));
  EXPECT_FALSE(fs::exists(directory_ / "inputs/waivers.json"));
}

TEST_F(PackageTest, SignatureCoversTheManifest) {
  const auto key_file = [&](const char* name, const char* kind, const char* text) {
    const fs::path path = directory_.string() + name;
    std::ofstream(path) << "-----BEGIN " << kind << " KEY-----\n" << text << "\n-----END " << kind << " KEY-----\n";
    return path;
  };
  // The key pair of RFC 8410, 10.3 and 10.1.
  const fs::path own = key_file(".own", "PRIVATE", "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC");
  const fs::path published =
      key_file(".public", "PUBLIC", "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=");
  const auto key = SignatureKey::read_public(published);
  const auto signs = SignatureKey::read_private(own);
  ASSERT_TRUE(key && signs);
  make(&*signs);
  const auto state = [&](const SignatureKey* with) { return verify_package(directory_, with)->signature; };
  EXPECT_EQ(state(nullptr), SignatureState::unchecked);
  EXPECT_EQ(state(&*key), SignatureState::valid);
  // A manifest that was computed again after a modification has valid digests, but no valid signature.
  const fs::path signature = directory_ / signature_name;
  fs::copy_file(signature, signature.string() + ".old");
  write("report.json", "{ }\n");
  fs::rename(signature.string() + ".old", directory_.string() + ".old");
  make();
  EXPECT_EQ(state(&*key), SignatureState::missing);
  fs::rename(directory_.string() + ".old", signature);
  EXPECT_EQ(state(&*key), SignatureState::invalid);
  const auto wrong = verify_package(directory_, &*key);
  EXPECT_FALSE(wrong->is_intact());
  EXPECT_THAT(text_of(*wrong), HasSubstr("NOT INTACT: 2 of 2 files are unchanged, but the signature is invalid\n"));
  fs::remove(own);
  fs::remove(published);
}

TEST(Manifest, MalformedManifestIsReported) {
  const auto error = [](const std::string& text) {
    const auto parsed = parse_manifest(text, "m");
    return parsed ? std::string() : parsed.error();
  };
  const auto with_file = [](const std::string& file) {
    return R"({"format":1,"program":"p","commit":"c","sessions":[],"files":[)" + file + "]}";
  };
  const std::string digest(64, 'a');
  EXPECT_THAT(error("{"), HasSubstr("m: line 1: invalid JSON"));
  EXPECT_EQ(error("[]"), "m: is no manifest of format 1");
  EXPECT_EQ(error(R"({"format":2,"files":[]})"), "m: is no manifest of format 1");
  EXPECT_EQ(error(R"({"format":1,"program":1,"files":[]})"), "m: \"program\" must be a string");
  EXPECT_EQ(error(with_file("")), "");
  EXPECT_EQ(error(R"({"format":1,"program":"p","commit":"c","sessions":[{"start":"s","end":"e"}],"files":[],)"
                  R"("device":{"name":"n","details":"d"},"seed":1,"partial":5})"),
            "m: \"partial\" must be a string");
  EXPECT_EQ(error(with_file("5")), "m: files: \"path\" must be a string");
  EXPECT_EQ(error(with_file(R"({"path":"a","bytes":-1,"sha256":""})")), "m: files: \"bytes\" must be a whole number");
  EXPECT_EQ(error(with_file(R"({"path":"a","bytes":1,"sha256":"ab"})")),
            "m: files: \"sha256\" of a must have 64 hexadecimal digits");
  for (const char* path :
       {"../a", "/etc/passwd", "a/../../b", "", ".", "a//b", "./a", "a/", "manifest.json", "manifest.sig"})
    EXPECT_THAT(error(with_file(R"({"path":")" + std::string(path) + R"(","bytes":1,"sha256":")" + digest + "\"}")),
                HasSubstr("is not that of a file of the package"))
        << path;
  const std::string file = R"({"path":"a","bytes":1,"sha256":")" + digest + "\"}";
  EXPECT_EQ(error(with_file(file + "," + file)), "m: files: a is listed twice");
}

}  // namespace
}  // namespace rdmawire::conformance
