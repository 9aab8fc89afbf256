#include "replay/peer/tls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rdmawire::peer {
namespace {

using ::testing::HasSubstr;
using Side = TlsContext::Side;

Key key(std::string id, std::uint8_t fill) {
  Key made;
  made.id = std::move(id);
  made.bytes.fill(fill);
  return made;
}
TlsChannel channel(Side side, std::vector<Key> keys) {
  auto context = TlsContext::make(side, std::move(keys));
  EXPECT_TRUE(context) << context.error();
  return TlsChannel(*context);
}

/// Two ends, and the bytes that an observer between them sees.
struct Wire {
  TlsChannel controller, agent;
  std::string controller_text{}, agent_text{};  ///< received plain text
  std::string to_agent{}, to_controller{};

  /// Exchanges records until both ends are silent. Returns false if one of them fails.
  bool exchange(std::size_t piece = std::string::npos) {
    bool valid = true;
    for (;;) {
      const std::string up = controller.take_output();
      for (std::size_t at = 0; at < up.size(); at += std::min(piece, up.size()))
        valid = agent.receive(std::string_view(up).substr(at, piece), agent_text) && valid;
      const std::string down = agent.take_output();
      for (std::size_t at = 0; at < down.size(); at += std::min(piece, down.size()))
        valid = controller.receive(std::string_view(down).substr(at, piece), controller_text) && valid;
      to_agent += up;
      to_controller += down;
      if (up.empty() && down.empty()) return valid;
    }
  }
};

TEST(Tls, SameKeyConnectsAndHidesText) {
  for (const std::size_t piece : {std::string::npos, std::size_t{1}, std::size_t{7}}) {
    Wire wire{channel(Side::controller, {key("b", 2)}), channel(Side::agent, {key("a", 1), key("b", 2)})};
    ASSERT_TRUE(wire.exchange(piece)) << wire.controller.error() << wire.agent.error();
    EXPECT_TRUE(wire.controller.established() && wire.agent.established());
    EXPECT_EQ(wire.agent.key_id(), "b");
    const std::string much(300'000, 'm');
    wire.controller.send("a question\n");
    wire.agent.send("the answer\n" + much);
    ASSERT_TRUE(wire.exchange(piece));
    EXPECT_EQ(wire.agent_text, "a question\n");
    EXPECT_EQ(wire.controller_text, "the answer\n" + much);
    EXPECT_EQ(wire.to_agent.find("question"), std::string::npos);
    EXPECT_EQ(wire.to_controller.find("mmmm"), std::string::npos);
    // An observer sees the key's ID, but not the key.
    EXPECT_NE(wire.to_agent.find("b"), std::string::npos);
    EXPECT_EQ(wire.to_agent.find(std::string(8, '\2')), std::string::npos);
  }
}

TEST(Tls, AgentRejectsUnknownAndWrongKeys) {
  Wire unknown{channel(Side::controller, {key("c", 3)}), channel(Side::agent, {key("a", 1)})};
  EXPECT_FALSE(unknown.exchange());
  EXPECT_EQ(unknown.agent.error(), "unknown key ID c");
  EXPECT_EQ(unknown.controller.error(),
            "the agent rejected the key with the ID c: its credentials do not contain the same key");
  Wire wrong{channel(Side::controller, {key("a", 3)}), channel(Side::agent, {key("a", 1)})};
  EXPECT_FALSE(wrong.exchange());
  EXPECT_EQ(wrong.agent.error(), "the controller's key with the ID a is wrong");
  EXPECT_EQ(wrong.controller.error(),
            "the agent rejected the key with the ID a: its credentials do not contain the same key");
  EXPECT_FALSE(unknown.agent.established() || wrong.agent.established());
}

TEST(Tls, PlainTextIsRecognizedOnBothSides) {
  std::string text;
  TlsChannel agent = channel(Side::agent, {key("a", 1)});
  EXPECT_FALSE(agent.receive("\n{\"id\":1,\"do\":\"hello\"}\n", text));
  EXPECT_TRUE(agent.peer_sends_plain_text());
  EXPECT_EQ(agent.error(), "the controller uses no TLS; specify its credentials");
  TlsChannel controller = channel(Side::controller, {key("a", 1)});
  EXPECT_FALSE(controller.receive("{\"id\":null}\n", text));
  EXPECT_EQ(controller.error(), "the agent uses no TLS; start it with --credentials");
  EXPECT_EQ(text, "");
  EXPECT_TRUE(looks_like_tls(channel(Side::controller, {key("a", 1)}).take_output()));
  EXPECT_FALSE(looks_like_tls("\n{"));
}

TEST(Tls, ChangedRecordEndsTheConnection) {
  Wire wire{channel(Side::controller, {key("a", 1)}), channel(Side::agent, {key("a", 1)})};
  ASSERT_TRUE(wire.exchange());
  wire.controller.send("destroy everything\n");
  std::string record = wire.controller.take_output();
  record[record.size() / 2] = static_cast<char>(record[record.size() / 2] ^ 1);
  EXPECT_FALSE(wire.agent.receive(record, wire.agent_text));
  EXPECT_EQ(wire.agent_text, "");
  EXPECT_THAT(wire.agent.error(), HasSubstr("TLS: "));
}

TEST(Tls, RecordedControllerCannotBeRepeated) {
  Wire wire{channel(Side::controller, {key("a", 1)}), channel(Side::agent, {key("a", 1)})};
  ASSERT_TRUE(wire.exchange());
  wire.controller.send("first\n");
  ASSERT_TRUE(wire.exchange());
  TlsChannel agent = channel(Side::agent, {key("a", 1)});
  std::string text;
  EXPECT_FALSE(agent.receive(wire.to_agent, text));
  EXPECT_FALSE(agent.established());
  EXPECT_EQ(text, "");
}

TEST(Tls, RecordedTrafficNeedsMoreThanTheKey) {
  // The key share extension of ServerHello: X25519, 32 bytes. Without it, the key would be sufficient to decrypt a
  // recording.
  static const std::string key_share("\x00\x33\x00\x24\x00\x1d\x00\x20", 8);
  std::string shares[2];
  for (std::string& share : shares) {
    Wire wire{channel(Side::controller, {key("a", 1)}), channel(Side::agent, {key("a", 1)})};
    ASSERT_TRUE(wire.exchange());
    const std::size_t at = wire.to_controller.find(key_share);
    ASSERT_NE(at, std::string::npos);
    share = wire.to_controller.substr(at + key_share.size(), 32);
  }
  EXPECT_NE(shares[0], shares[1]);
}

/// Connects both sides with a configuration file of OpenSSL, which a process reads once. Exit status 0: connected.
[[noreturn]] void connect_with_configuration() {
  std::string name = (std::filesystem::temp_directory_path() / "rdmawire-openssl-XXXXXX").string();
  ::close(::mkstemp(name.data()));
  std::ofstream(name) << "openssl_conf = all\n[all]\nproviders = modules\nssl_conf = tls\n"
                         "[modules]\nmissing = module\n[module]\nmodule = /nowhere.so\nactivate = 1\n"
                         "[tls]\nsystem_default = defaults\n[defaults]\nMaxProtocol = TLSv1.2\n"
                         "Ciphersuites = TLS_CHACHA20_POLY1305_SHA256\nGroups = P-521\n";
  ::setenv("OPENSSL_CONF", name.c_str(), 1);
  Wire wire{channel(Side::controller, {key("a", 1)}), channel(Side::agent, {key("a", 1)})};
  const bool connected = wire.exchange() && wire.agent.established();
  std::filesystem::remove(name);
  std::_Exit(connected ? 0 : 1);
}

TEST(Tls, ConfigurationOfTheHostHasNoEffect) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(connect_with_configuration(), ::testing::ExitedWithCode(0), "");
}

TEST(Tls, ControllerUsesExactlyOneKey) {
  EXPECT_EQ(TlsContext::make(Side::controller, {key("a", 1), key("b", 2)}).error(),
            "contains 2 keys; a controller uses one");
}

/// A plain OpenSSL server or client as the peer of a channel.
class Stranger {
 public:
  explicit Stranger(const SSL_METHOD* method) : context_(SSL_CTX_new(method)), ssl_(SSL_new(context_)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  SSL* ssl() { return ssl_; }
  /// Returns false if the channel fails.
  bool exchange(TlsChannel& channel, std::string& text) {
    for (int i = 0; i < 10; ++i) {
      static_cast<void>(SSL_do_handshake(ssl_));
      char* bytes = nullptr;
      const long length = BIO_get_mem_data(SSL_get_wbio(ssl_), &bytes);
      const std::string sent(bytes, static_cast<std::size_t>(length));
      static_cast<void>(BIO_reset(SSL_get_wbio(ssl_)));
      if (!sent.empty() && !channel.receive(sent, text)) return false;
      const std::string answer = channel.take_output();
      BIO_write(SSL_get_rbio(ssl_), answer.data(), static_cast<int>(answer.size()));
    }
    return true;
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_;
};

TEST(Tls, ControllerRejectsAnAgentWithACertificate) {
  Stranger agent(TLS_server_method());
  EVP_PKEY* own = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -1000);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 1000);
  X509_set_pubkey(certificate, own);
  ASSERT_GT(X509_sign(certificate, own, EVP_sha256()), 0);
  ASSERT_EQ(SSL_use_certificate(agent.ssl(), certificate), 1);
  ASSERT_EQ(SSL_use_PrivateKey(agent.ssl(), own), 1);
  X509_free(certificate);
  EVP_PKEY_free(own);
  SSL_set_accept_state(agent.ssl());
  TlsChannel controller = channel(Side::controller, {key("a", 1)});
  std::string text;
  std::string first = controller.take_output();
  BIO_write(SSL_get_rbio(agent.ssl()), first.data(), static_cast<int>(first.size()));
  EXPECT_FALSE(agent.exchange(controller, text));
  EXPECT_FALSE(controller.established());
  EXPECT_THAT(controller.error(), HasSubstr("the agent did not prove that it has the key with the ID a: "));
}

TEST(Tls, AgentRejectsControllersWithoutAKeyOrTls13) {
  for (const bool old : {false, true}) {
    Stranger controller(TLS_client_method());
    if (old) SSL_set_max_proto_version(controller.ssl(), TLS1_2_VERSION);
    SSL_set_connect_state(controller.ssl());
    TlsChannel agent = channel(Side::agent, {key("a", 1)});
    std::string text;
    EXPECT_FALSE(controller.exchange(agent, text));
    EXPECT_THAT(agent.error(),
                HasSubstr(old ? "the controller does not support TLS 1.3" : "the controller has no key: "));
  }
}

TEST(Tls, ArbitraryBytesEndTheHandshake) {
  TlsChannel agent = channel(Side::agent, {key("a", 1)});
  std::string text;
  EXPECT_FALSE(agent.receive(std::string("\x16\x03\x01\x00\x05hello", 10), text));
  EXPECT_FALSE(agent.peer_sends_plain_text());
  EXPECT_NE(agent.error(), "");
}

}  // namespace
}  // namespace rdmawire::peer
