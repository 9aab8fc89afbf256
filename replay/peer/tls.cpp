#include "replay/peer/tls.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>

namespace rdmawire::peer {

namespace {

/// One cipher suite, because a key must be used with one hash function only (RFC 9257, section 5).
constexpr const char* suite_name = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> suite_number = {0x13, 0x01};

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

/// OpenSSL describes a shared key as the session that TLS resumes.
std::unique_ptr<SSL_SESSION, FreeSession> session_of(SSL* ssl, const Key& key) {
  std::unique_ptr<SSL_SESSION, FreeSession> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, suite_number.data());
  if (!session || cipher == nullptr || SSL_SESSION_set1_master_key(session.get(), key.bytes.data(), Key::size) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session;
}

/// The reason of the last error of OpenSSL in this thread, and its text.
struct Reason {
  int number = 0;
  std::string text;
};
Reason take_reason() {
  const unsigned long code = ERR_peek_last_error();
  Reason reason;
  if (code != 0) {
    const char* text = ERR_reason_error_string(code);
    reason = {ERR_GET_REASON(code), text != nullptr ? text : fmt::format("error {:#x}", code)};
  } else {
    reason.text = "unexpected end";
  }
  ERR_clear_error();
  return reason;
}

/// OpenSSL without the providers in the configuration file of the host. A static program cannot load them. It is never
/// freed, because each thread that used it refers to it until the thread ends. nullptr: failed.
OSSL_LIB_CTX* openssl() {
  static OSSL_LIB_CTX* const library = [] {
    OSSL_LIB_CTX* made = OSSL_LIB_CTX_new();
    return made != nullptr && OSSL_PROVIDER_load(made, "default") != nullptr ? made : nullptr;
  }();
  return library;
}

}  // namespace

struct TlsContext::Library {
  SSL_CTX* context = nullptr;

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { SSL_CTX_free(context); }
};

struct TlsChannel::State {
  std::shared_ptr<const TlsContext> context;
  SSL* ssl = nullptr;
  bool first = true;  ///< nothing was received yet
  bool plain = false;
  bool established = false;
  bool closed = false;
  bool offered = false;  ///< the controller sent a key ID
  std::string key_id;
  std::string error;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { SSL_free(ssl); }

  static State& of(SSL* ssl) { return *static_cast<State*>(SSL_get_app_data(ssl)); }
  static int use_key(SSL* ssl, const EVP_MD* hash, const unsigned char** id, std::size_t* length,
                     SSL_SESSION** session) {
    State& state = of(ssl);
    const Key& key = state.context->keys_.front();
    *session = nullptr;
    if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256) return 1;
    auto made = session_of(ssl, key);
    if (!made) return 0;
    *id = reinterpret_cast<const unsigned char*>(key.id.data());
    *length = key.id.size();
    *session = made.release();
    return 1;
  }
  static int find_key(SSL* ssl, const unsigned char* id, std::size_t length, SSL_SESSION** session) {
    State& state = of(ssl);
    const std::string_view text(reinterpret_cast<const char*>(id), length);
    *session = nullptr;
    state.offered = true;
    state.key_id = is_key_id(text) ? std::string(text) : std::string("?");
    const Key* key = state.context->find(text);
    if (key == nullptr) return 1;
    auto made = session_of(ssl, *key);
    if (!made) return 0;
    *session = made.release();
    return 1;
  }

  void fail() {
    const Reason reason = take_reason();
    const bool agent = context->side() == TlsContext::Side::agent;
    if (established) {
      error = fmt::format("TLS: {}", reason.text);
    } else if (agent && !offered) {
      error = reason.number == SSL_R_UNSUPPORTED_PROTOCOL ? "the controller does not support TLS 1.3"
                                                          : "the controller has no key: " + reason.text;
    } else if (agent && context->find(key_id) == nullptr) {
      error = fmt::format("unknown key ID {}", key_id);
    } else if (agent && reason.number == SSL_R_BINDER_DOES_NOT_VERIFY) {
      error = fmt::format("the controller's key with the ID {} is wrong", key_id);
    } else if (agent) {
      error = fmt::format("key ID {}: {}", key_id, reason.text);
    } else if (reason.number > SSL_AD_REASON_OFFSET) {
      error =
          fmt::format("the agent rejected the key with the ID {}: its credentials do not contain the same key", key_id);
    } else {
      error = fmt::format("the agent did not prove that it has the key with the ID {}: {}", key_id, reason.text);
    }
  }
  /// Returns false on failure.
  bool shake_hands() {
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl);
    if (done == 1) {
      // A peer without the key could authenticate with a certificate only, and no certificate is trusted.
      if (SSL_session_reused(ssl) != 1 || SSL_version(ssl) != TLS1_3_VERSION) {
        error = "the peer did not prove that it has the key";
        return false;
      }
      established = true;
      return true;
    }
    if (SSL_get_error(ssl, done) == SSL_ERROR_WANT_READ) return true;
    fail();
    return false;
  }
};

TlsContext::TlsContext(Side side, std::vector<Key> keys)
    : side_(side), keys_(std::move(keys)), library_(std::make_unique<Library>()) {}
TlsContext::~TlsContext() = default;

const Key* TlsContext::find(std::string_view id) const {
  const auto found = std::ranges::find(keys_, id, &Key::id);
  return found == keys_.end() ? nullptr : &*found;
}

tl::expected<std::shared_ptr<const TlsContext>, std::string> TlsContext::make(Side side, std::vector<Key> keys) {
  if (side == Side::controller && keys.size() != 1)
    return tl::unexpected(fmt::format("contains {} keys; a controller uses one", keys.size()));
  std::shared_ptr<TlsContext> made(new TlsContext(side, std::move(keys)));
  Library& library = *made->library_;
  ERR_clear_error();
  if (openssl() != nullptr)
    library.context =
        SSL_CTX_new_ex(openssl(), nullptr, side == Side::agent ? TLS_server_method() : TLS_client_method());
  SSL_CTX* context = library.context;
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, suite_name) != 1 || SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1)
    return tl::unexpected("OpenSSL: " + take_reason().text);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  if (side == Side::agent) {
    SSL_CTX_set_psk_find_session_callback(context, TlsChannel::State::find_key);
  } else {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_psk_use_session_callback(context, TlsChannel::State::use_key);
  }
  return made;
}

TlsChannel::TlsChannel(std::shared_ptr<const TlsContext> context) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.context = std::move(context);
  state.ssl = SSL_new(state.context->library_->context);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (state.ssl == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    state.error = "OpenSSL: " + take_reason().text;
    return;
  }
  SSL_set_bio(state.ssl, in, out);
  SSL_set_app_data(state.ssl, &state);
  if (state.context->side() == TlsContext::Side::agent) {
    SSL_set_accept_state(state.ssl);
  } else {
    state.key_id = state.context->keys_.front().id;
    SSL_set_connect_state(state.ssl);
    state.shake_hands();
  }
}
TlsChannel::TlsChannel(TlsChannel&&) noexcept = default;
TlsChannel& TlsChannel::operator=(TlsChannel&&) noexcept = default;
TlsChannel::~TlsChannel() = default;

bool TlsChannel::receive(std::string_view bytes, std::string& text) {
  State& state = *state_;
  if (!state.error.empty()) return false;
  if (bytes.empty()) return true;
  if (state.first) {
    state.first = false;
    state.plain = bytes[0] < SSL3_RT_CHANGE_CIPHER_SPEC || bytes[0] > SSL3_RT_APPLICATION_DATA;
    if (state.plain) {
      state.error = state.context->side() == TlsContext::Side::agent
                        ? "the controller uses no TLS; specify its credentials"
                        : "the agent uses no TLS; start it with --credentials";
      return false;
    }
  }
  std::size_t written = 0;
  if (BIO_write_ex(SSL_get_rbio(state.ssl), bytes.data(), bytes.size(), &written) != 1 || written != bytes.size()) {
    state.error = "OpenSSL: " + take_reason().text;
    return false;
  }
  if (!state.established && (!state.shake_hands() || !state.established)) return state.error.empty();
  std::array<char, 16384> part;
  for (;;) {
    ERR_clear_error();
    std::size_t got = 0;
    const int done = SSL_read_ex(state.ssl, part.data(), part.size(), &got);
    if (done == 1) {
      text.append(part.data(), got);
      continue;
    }
    const int why = SSL_get_error(state.ssl, done);
    if (why == SSL_ERROR_WANT_READ) return true;
    if (why == SSL_ERROR_ZERO_RETURN) {
      state.closed = true;
      return true;
    }
    state.fail();
    return false;
  }
}

void TlsChannel::send(std::string_view text) {
  State& state = *state_;
  if (!state.established || !state.error.empty() || text.empty()) return;
  ERR_clear_error();
  std::size_t written = 0;
  // A memory BIO accepts everything.
  if (SSL_write_ex(state.ssl, text.data(), text.size(), &written) != 1) state.fail();
}

std::string TlsChannel::take_output() {
  if (state_->ssl == nullptr) return {};
  BIO* out = SSL_get_wbio(state_->ssl);
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(out, &bytes);
  std::string output(bytes, length > 0 ? static_cast<std::size_t>(length) : 0);
  static_cast<void>(BIO_reset(out));
  return output;
}

bool TlsChannel::established() const { return state_->established; }
bool TlsChannel::closed() const { return state_->closed; }
bool TlsChannel::peer_sends_plain_text() const { return state_->plain; }
const std::string& TlsChannel::key_id() const { return state_->key_id; }
const std::string& TlsChannel::error() const { return state_->error; }

}  // namespace rdmawire::peer
