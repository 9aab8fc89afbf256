/// hello, authenticate, ping, objects, destroy, reset, bye.

#include <linux/capability.h>
#include <sodium.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/conversation.hpp"

namespace rdmawire::agent {
namespace {

constexpr unsigned most_guesses = 3;

/// True if the kernel treats this program as a privileged consumer (IBTA vol 1, 10.2.5): CAP_NET_RAW in the initial
/// user namespace.
bool is_privileged() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capget, &header, data) != 0 || (data[0].effective >> CAP_NET_RAW & 1) == 0) return false;
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  return map >> inside >> outside >> count && inside == 0 && outside == 0 && count == 0xffffffff;
}

Result<Json> hello(Session& session, Arguments& arguments) {
  const auto protocol = arguments.number<std::uint32_t>("protocol");
  static_cast<void>(arguments.text_or("controller", ""));
  const auto heartbeat = arguments.maybe<std::uint64_t>("heartbeat_ms", {10, 86'400'000});
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (protocol != protocol_version) {
    return fail(EPROTONOSUPPORT, "protocol: the agent supports version {}, not {}", protocol_version, protocol);
  }
  session.begun = true;
  session.heartbeat = static_cast<Loop::Time>(heartbeat.value_or(0)) * Loop::millisecond;

  utsname name{};
  static_cast<void>(uname(&name));
  Json result = {{"protocol", protocol_version},  {"agent", "rdmawire-agent " + session.settings().version},
                 {"host", name.nodename},         {"kernel", name.release},
                 {"privileged", is_privileged()}, {"authentication", "none"}};
  if (session.settings().secret) {
    session.challenge.resize(32);
    randombytes_buf(session.challenge.data(), session.challenge.size());
    result["authentication"] = "hmac-sha256";
    result["challenge"] =
        to_hex(reinterpret_cast<const std::uint8_t*>(session.challenge.data()), session.challenge.size());
  }
  return result;
}

bool proves(const std::string& secret, const std::string& challenge, const std::vector<std::uint8_t>& response) {
  if (response.size() != crypto_auth_hmacsha256_BYTES) return false;
  std::uint8_t expected[crypto_auth_hmacsha256_BYTES];
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const std::uint8_t*>(secret.data()), secret.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const std::uint8_t*>(challenge.data()), challenge.size());
  crypto_auth_hmacsha256_final(&state, expected);
  const bool same = sodium_memcmp(expected, response.data(), sizeof expected) == 0;
  sodium_memzero(expected, sizeof expected);
  return same;
}

void authenticate(Session& session, Arguments& arguments, Answer answer) {
  const auto response = arguments.bytes("response", crypto_auth_hmacsha256_BYTES);
  if (auto wrong = arguments.wrong()) return answer(tl::unexpected(*wrong));
  if (session.challenge.empty())
    return answer(fail(EISCONN, "the session requires no authentication, or is authenticated"));
  if (session.guess) return answer(fail(EALREADY, "a previous failed attempt is still pending"));
  if (session.wrong_guesses < most_guesses && proves(*session.settings().secret, session.challenge, response)) {
    session.challenge.clear();
    return answer(Json::object());
  }
  ++session.wrong_guesses;
  // Delayed, to slow down guessing.
  session.guess = session.loop().add_timer_in(session.settings().guess_delay, [&session, answer] {
    session.guess.stop();
    answer(session.wrong_guesses < most_guesses
               ? fail(EACCES, "response: wrong HMAC-SHA256 of the challenge")
               : fail(EACCES, "response: third failed attempt; send hello for a new challenge"));
  });
}

Result<Json> ping(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return Json{{"objects", session.objects().size()}, {"time_ns", session.loop().now()}};
}

Result<Json> objects(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  Json all = Json::array();
  for (const auto& [handle, object] : session.objects()) {
    Json entry = {{"handle", handle}, {"kind", object->kind()}, {"uses", object->uses()}};
    entry.update(object->about());
    all.push_back(std::move(entry));
  }
  return Json{{"objects", std::move(all)}};
}

Result<Json> destroy(Session& session, Arguments& arguments) {
  const auto handle = arguments.number<std::uint64_t>("object");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (auto done = session.objects().destroy(handle); !done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> bye(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  session.said_bye = true;
  return Json{{"released", session.reset()}};
}

Result<Json> reset(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return Json{{"released", session.reset()}};
}

}  // namespace

std::span<const Command> session_commands() {
  static const Command all[] = {
      {"hello",
       "Starts a session, and ends the previous one on this channel. If the result contains a `challenge`, "
       "`authenticate` "
       "must follow.",
       {{"protocol", "number: 1, the version of this protocol"},
        {"controller", "optional text: name of the controller"},
        {"heartbeat_ms",
         "optional number, 10 to 86400000: the session ends after this time without a line, such as `ping`"}},
       {{"protocol", "1"},
        {"agent", "program and version"},
        {"host", "host name"},
        {"kernel", "kernel release"},
        {"privileged",
         "boolean: whether the agent is a privileged consumer (CAP_NET_RAW), which may use Q_Keys "
         "with the high bit set"},
        {"authentication", "`none` or `hmac-sha256`"},
        {"challenge", "bytes, only with `hmac-sha256`"}},
       R"({"protocol":1,"controller":"certify","heartbeat_ms":5000})",
       R"({"protocol":1,"agent":"rdmawire-agent 0.1.0","host":"guest","kernel":"6.1.0-30-amd64","privileged":true,"authentication":"none"})",
       &hello},
      {"authenticate",
       "Authenticates the controller. The error EACCES for a wrong response is delayed. After three wrong responses, a "
       "new `hello` is required.",
       {{"response", "bytes: HMAC-SHA256 (RFC 2104) of the challenge's bytes, with the secret's bytes as the key"}},
       {},
       R"({"response":"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"})",
       "{}",
       &authenticate},
      {"ping",
       "Keeps the session alive.",
       {},
       {{"objects", "number of objects in the session"}, {"time_ns", "the agent's monotonic clock, nanoseconds"}},
       "{}",
       R"({"objects":4,"time_ns":81370914226})",
       &ping},
      {"objects",
       "Lists the objects of the session, oldest first.",
       {},
       {{"objects", "list of `handle`, `kind`, `uses` (handles of its parent objects) and further attributes"}},
       "{}",
       R"({"objects":[{"handle":1,"kind":"device","uses":[],"name":"rxe0"},{"handle":2,"kind":"pd","uses":[1]}]})",
       &objects},
      {"destroy",
       "Releases an object. EBUSY: other objects use it. Handles are not reused.",
       {{"object", "handle of any kind"}},
       {},
       R"({"object":2})",
       "{}",
       &destroy},
      {"reset",
       "Releases all objects, newest first. Waiting commands are canceled without a response.",
       {},
       {{"released", "number of released objects"}},
       "{}",
       R"({"released":4})",
       &reset},
      {"bye",
       "Ends the session as `reset` does. The next `hello` starts a new one.",
       {},
       {{"released", "number of released objects"}},
       "{}",
       R"({"released":0})",
       &bye},
  };
  return all;
}

}  // namespace rdmawire::agent
