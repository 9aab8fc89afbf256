#include "conformance/report/digest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace rdmawire::conformance {
namespace {

using testing::HasSubstr;

// The key pair of RFC 8410, 10.3 and 10.1.
constexpr const char* private_key =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char* public_key =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
    "-----END PUBLIC KEY-----\n";
constexpr const char* key_of_other_curve =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
    "-----END PUBLIC KEY-----\n";

class DigestTest : public testing::Test {
 protected:
  DigestTest() : directory_(std::filesystem::path(testing::TempDir()) / ("digest_test." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(directory_);
  }
  ~DigestTest() override { std::filesystem::remove_all(directory_); }
  [[nodiscard]] std::filesystem::path file(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
    return directory_ / name;
  }
  const std::filesystem::path directory_;
};

TEST_F(DigestTest, Sha256IsThatOfFips180) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of_file(file("abc", "abc")), sha256_of("abc"));
  EXPECT_EQ(sha256_of_file(file("long", std::string(200'000, 'a'))), sha256_of(std::string(200'000, 'a')));
}

TEST_F(DigestTest, OnlyRegularFilesHaveADigest) {
  std::filesystem::create_symlink(file("target", "x"), directory_ / "link");
  EXPECT_THAT(sha256_of_file(directory_ / "link").error(), HasSubstr("is a symbolic link"));
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(sha256_of_file(directory_ / "pipe").error(), HasSubstr("is not a regular file"));
  EXPECT_THAT(sha256_of_file(directory_ / "none").error(), HasSubstr("No such file"));
}

TEST_F(DigestTest, SignatureIsValidOnlyForItsTextAndKey) {
  const auto own = SignatureKey::read_private(file("private.pem", private_key));
  const auto published = SignatureKey::read_public(file("public.pem", public_key));
  ASSERT_TRUE(own) << own.error();
  ASSERT_TRUE(published) << published.error();
  EXPECT_EQ(own->fingerprint(), published->fingerprint());
  EXPECT_EQ(own->fingerprint().size(), 64U);
  std::string signature = own->sign("a manifest").value();
  EXPECT_EQ(signature.size(), 64U);
  EXPECT_TRUE(published->verifies("a manifest", signature));
  EXPECT_FALSE(published->verifies("A manifest", signature));
  EXPECT_FALSE(published->verifies("a manifest", ""));
  signature[10] ^= 1;
  EXPECT_FALSE(published->verifies("a manifest", signature));
  EXPECT_FALSE(published->sign("a manifest")) << "a public key cannot sign";
}

TEST_F(DigestTest, UnusableKeyIsReported) {
  EXPECT_THAT(SignatureKey::read_private("/no/such").error(), HasSubstr("/no/such: No such file"));
  EXPECT_THAT(SignatureKey::read_private(file("text", "no key")).error(), HasSubstr("contains no private key in PEM"));
  EXPECT_THAT(SignatureKey::read_private(file("public.pem", public_key)).error(), HasSubstr("contains no private key"));
  EXPECT_THAT(SignatureKey::read_public(file("x25519.pem", key_of_other_curve)).error(), HasSubstr("expected Ed25519"));
}

}  // namespace
}  // namespace rdmawire::conformance
