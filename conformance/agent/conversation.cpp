#include "conformance/agent/conversation.hpp"

#include "conformance/agent/commands.hpp"

namespace rdmawire::agent {
namespace {

/// Returns the maximum nesting depth of brackets outside of strings.
std::size_t depth_of(std::string_view line) {
  std::size_t depth = 0, deepest = 0;
  bool text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (text) {
      if (c == '\\') ++i;
      if (c == '"') text = false;
    } else if (c == '"') {
      text = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

constexpr std::size_t most_depth = 16;
constexpr std::size_t most_id = 256;

}  // namespace

Conversation::Conversation(Loop& loop, const Settings& settings, Say say, std::function<bool()> busy)
    : loop_(&loop), settings_(&settings), say_(std::move(say)), busy_(std::move(busy)) {}

Conversation::~Conversation() { end(); }

void Conversation::receive(std::string_view bytes) {
  input_.append(bytes);
  resume();
}

void Conversation::resume() {
  while (!(busy_ && busy_())) {
    const std::size_t end = input_.find('\n', searched_);
    if (end == std::string::npos) {
      searched_ = input_.size();
      if (!skipping_ && input_.size() - done_ > most_line) {
        skipping_ = true;
        say_(error_line("null", {EMSGSIZE, fmt::format("the line exceeds {} bytes; the rest is skipped", most_line)}));
      }
      if (skipping_) done_ = input_.size();
      break;
    }
    const std::string_view line(input_.data() + done_, end - done_);
    const std::size_t next = end + 1;
    if (skipping_) {
      skipping_ = false;
    } else if (line.size() > most_line) {
      say_(error_line("null", {EMSGSIZE, fmt::format("the line limit is {} bytes, not {}", most_line, line.size())}));
    } else {
      take(line);
    }
    done_ = searched_ = next;
  }
  input_.erase(0, done_);
  searched_ -= std::min(searched_, done_);
  done_ = 0;
}

void Conversation::take(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return;
  restart_heartbeat();
  if (depth_of(line) > most_depth) {
    return say_(error_line("null", {EBADMSG, fmt::format("the line is nested more than {} levels deep", most_depth)}));
  }
  const Received asked = Received::parse(line, nullptr, false);
  if (!asked.is_object()) {
    return say_(error_line(
        "null", {EBADMSG, asked.is_discarded() ? "the line is not valid JSON" : "the line is not a JSON object"}));
  }
  const auto id = asked.find("id");
  std::string id_text = "null";
  if (id != asked.end() && (id->is_number() || id->is_string())) id_text = id->dump();
  if (id_text == "null" || id_text.size() > most_id) {
    return say_(error_line(
        "null", {EBADMSG, fmt::format("missing \"id\", a number or a string of at most {} bytes", most_id)}));
  }
  const auto what = asked.find("do");
  if (what == asked.end() || !what->is_string()) {
    return say_(error_line(id_text, {EBADMSG, "missing \"do\", the name of a command"}));
  }
  ask(asked, std::move(id_text), what->get_ref<const std::string&>());
}

void Conversation::ask(const Received& asked, std::string id, const std::string& what) {
  const Handler* handler = find_handler(what);
  if (handler == nullptr) {
    const std::string name = line_of(Json(what.substr(0, 60)));
    return say_(error_line(id, {ENOSYS, fmt::format("do: unknown command {}", name)}));
  }
  if (what == "hello") return begin(asked, std::move(id));
  if (!session_) return say_(error_line(id, {EPROTO, fmt::format("{}: requires hello", what)}));
  run_command(session_, *handler, asked, std::move(id));
  if (session_->said_bye) end();
}

void Conversation::begin(const Received& asked, std::string id) {
  end();
  auto session = std::make_shared<Session>(*loop_, *settings_, say_);
  session_ = session;
  run_command(session, *find_handler("hello"), asked, std::move(id));
  // A rejected hello starts no session.
  if (!session->begun) session_.reset();
  restart_heartbeat();
}

void Conversation::restart_heartbeat() {
  heartbeat_.stop();
  if (!session_ || session_->heartbeat == 0) return;
  heartbeat_ = loop_->add_timer_in(session_->heartbeat, [this] {
    const auto silence = session_->heartbeat / Loop::millisecond;
    end();
    say_(line_of(rpc::event_of(rpc::EndedEvent{fmt::format("no line received for {} ms", silence)})));
  });
}

void Conversation::end() {
  heartbeat_.stop();
  if (session_) session_->end();
  session_.reset();
}

void Conversation::lost() {
  end();
  input_.clear();
  done_ = searched_ = 0;
  skipping_ = false;
}

}  // namespace rdmawire::agent
