#include "captures/analysis/csv.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "captures/analysis/report.hpp"
#include "captures/io/output_file.hpp"
#include "dissectors/output/printable.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::captures::analysis {
namespace {

void append_cell(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

void append_value(std::string& line, const Json& value) {
  if (value.is_null()) return;
  if (value.is_string())
    append_cell(line, value.get_ref<const std::string&>());
  else if (value.is_boolean())
    line += value.get<bool>() ? "1" : "0";
  else
    line += value.dump();
}

/// Visits the columns of a row. An object whose keys are kinds becomes one column per kind.
void each_cell(const Json& row, const std::string& prefix,
               const std::function<void(const std::string&, const Json&)>& take) {
  for (const auto& [key, value] : row.items()) {
    const std::string name = prefix + key;
    if (key == "messages" && value.is_object()) {
      for (std::size_t i = 0; i < tracking::message_kinds; ++i) {
        const std::string kind(to_string(static_cast<MessageKind>(i)));
        take(name + "_" + kind, value.contains(kind) ? value[kind] : Json(0));
      }
    } else if (key == "naks" && value.is_object()) {
      for (const char* code : {"psn_sequence_error", "invalid_request", "remote_access_error",
                               "remote_operational_error", "invalid_rd_request"})
        take(name + "_" + code, value.contains(code) ? value[code] : Json(0));
    } else if (value.is_object()) {
      each_cell(value, name + "_", take);
    } else {
      take(name, value);
    }
  }
}

/// Replaces the list of NACKs by two columns: their total number, and a text with the number for each reason.
Json mrc_connection_row(const tracking::MrcFlow& flow) {
  Json row = mrc_connection_json(flow);
  std::uint64_t count = 0;
  std::string reasons;
  for (const Json& nacks : row.at("nacks")) {
    count += nacks.at("count").get<std::uint64_t>();
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ",
                           nacks.at("reason").is_null() ? fmt::format("{:#x}", nacks.at("code").get<unsigned>())
                                                        : nacks.at("reason").get<std::string>(),
                           nacks.at("count").get<std::uint64_t>());
  }
  row["nacks"] = count;
  row["nack_reasons"] = reasons;
  return row;
}

}  // namespace

struct CsvTables::State {
  struct Table {
    std::optional<OutputFile> file;
    std::string text;
    bool header = false;
    std::string error;

    void write_header(const std::string& names) {
      text += names + '\n';
      header = true;
    }
    void row(const Json& value) {
      std::string names, line;
      each_cell(value, "", [&](const std::string& name, const Json& cell) {
        if (!header) names += (names.empty() ? "" : ",") + name;
        if (!first_) line += ',';
        first_ = false;
        append_value(line, cell);
      });
      first_ = true;
      if (!header) write_header(names);
      text += line + '\n';
      if (text.size() > (1U << 18)) flush();
    }
    void flush() {
      if (file && error.empty())
        if (const auto written = file->write(text); !written) error = written.error();
      text.clear();
    }

   private:
    bool first_ = true;
  };
  /// Columns of packets.csv that are not in PacketNote.
  struct Seen {
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::uint32_t psn = 0, bytes = 0;
    std::uint8_t opcode = 0;
    bool bth = false;
  };

  std::mutex mutex;
  Table connections, flows, messages, events, mrc_connections, mrc_paths, packets;
  /// Connection::id of a connection → that of the direction that was merged into it.
  std::unordered_map<std::uint64_t, std::uint64_t> merged_from;
  bool with_packets = false;
  std::string directory;
  std::vector<Seen> seen;  ///< a ring, indexed by frame number
  std::string error;
};

CsvTables::CsvTables(std::unique_ptr<State> state) : state_(std::move(state)) {}
CsvTables::~CsvTables() = default;

tl::expected<std::unique_ptr<CsvTables>, std::string> CsvTables::create(const std::string& directory, bool packets) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return tl::unexpected(
        fmt::format("{}: cannot create the directory: {}", output::printable(directory), error.message()));
  auto state = std::make_unique<State>();
  state->with_packets = packets;
  state->directory = directory;
  if (packets) state->seen.resize(1U << 17);
  const auto open = [&](State::Table& table, const char* name) {
    auto file = OutputFile::create((std::filesystem::path(directory) / name).string());
    if (file)
      table.file.emplace(std::move(*file));
    else if (state->error.empty())
      state->error = file.error();
  };
  open(state->connections, "connections.csv");
  open(state->flows, "flows.csv");
  open(state->messages, "messages.csv");
  open(state->events, "events.csv");
  open(state->mrc_connections, "mrc_connections.csv");
  open(state->mrc_paths, "mrc_paths.csv");
  if (packets) open(state->packets, "packets.csv");
  if (!state->error.empty()) return tl::unexpected(state->error);
  // Write the header now, with the columns of an empty row, so that tables without rows have one.
  const auto header = [](State::Table& table, const Json& row) {
    std::string names;
    each_cell(row, "", [&](const std::string& name, const Json&) { names += (names.empty() ? "" : ",") + name; });
    table.write_header(names);
  };
  Json connection = connection_json({});
  connection["merged_from"] = Json();
  header(state->connections, connection);
  header(state->flows, flow_json({}, Side::a));
  header(state->messages, message_json({}));
  header(state->events, event_json({}));
  header(state->mrc_connections, mrc_connection_row({}));
  header(state->mrc_paths, mrc_path_json({}, {}));
  if (packets)
    state->packets.write_header(
        "frame,time,connection,end,operation,psn,bytes,relative_psn,message,requester,related_frame,related_delay_ns,"
        "outstanding,retransmitted");
  return std::unique_ptr<CsvTables>(new CsvTables(std::move(state)));
}

void CsvTables::add(const tracking::Packet& packet) {
  State& s = *state_;
  if (!s.with_packets) return;
  State::Seen seen{packet.number, packet.time_ns, 0, packet.stack.wire_length, 0, false};
  if (const auto bth = packet.stack.get<Bth>()) {
    seen.bth = true;
    seen.psn = bth->get<"psn">();
    seen.opcode = bth->get<"opcode">();
  }
  const std::scoped_lock lock(s.mutex);
  s.seen[packet.number & (s.seen.size() - 1)] = seen;
}

void CsvTables::message(const tracking::Connection& /*connection*/, const tracking::Message& message) {
  const Json row = message_json(message);
  const std::scoped_lock lock(state_->mutex);
  state_->messages.row(row);
}

void CsvTables::event(const tracking::Connection* /*connection*/, const tracking::Event& event) {
  const Json row = event_json(event);
  const std::scoped_lock lock(state_->mutex);
  state_->events.row(row);
}

void CsvTables::connection(const tracking::Connection& connection, tracking::CloseReason /*reason*/) {
  Json row = connection_json(connection);
  const Json a = flow_json(connection, Side::a), b = flow_json(connection, Side::b);
  const std::scoped_lock lock(state_->mutex);
  const auto direction = state_->merged_from.find(connection.id);
  row["merged_from"] = direction == state_->merged_from.end() ? Json() : Json(direction->second);
  if (direction != state_->merged_from.end()) state_->merged_from.erase(direction);
  state_->connections.row(row);
  state_->flows.row(a);
  state_->flows.row(b);
}

void CsvTables::mrc_flow(const tracking::MrcFlow& flow, tracking::CloseReason /*reason*/) {
  const Json row = mrc_connection_row(flow);
  const std::scoped_lock lock(state_->mutex);
  state_->mrc_connections.row(row);
  for (const tracking::MrcPath& path : flow.paths) state_->mrc_paths.row(mrc_path_json(flow, path));
}

void CsvTables::merged(const tracking::Connection& connection, std::uint64_t id) {
  const std::scoped_lock lock(state_->mutex);
  state_->merged_from[connection.id] = id;
}

void CsvTables::packet(const tracking::Connection& /*connection*/, std::uint64_t frame,
                       const tracking::PacketNote& note) {
  State& s = *state_;
  if (!s.with_packets) return;
  const std::scoped_lock lock(s.mutex);
  const State::Seen& seen = s.seen[frame & (s.seen.size() - 1)];
  std::string& out = s.packets.text;
  const bool known = seen.frame == frame;
  out += fmt::format("{},", frame);
  if (known) output::append_seconds(out, seen.time);
  out += fmt::format(",{},{},", note.connection, note.end == Side::a ? 'a' : 'b');
  if (known && seen.bth && opcode(seen.opcode).known) append_cell(out, opcode(seen.opcode).name);
  out += ',';
  if (known && seen.bth) out += fmt::format("{}", seen.psn);
  out += ',';
  if (known) out += fmt::format("{}", seen.bytes);
  out += fmt::format(",{},", note.relative_psn);
  if (note.message)
    out += fmt::format("{},{}", note.message, note.requester == Side::a ? 'a' : 'b');
  else
    out += ',';
  out += ',';
  if (note.related_frame)
    out += fmt::format("{},{}", note.related_frame, note.related_delay);
  else
    out += ',';
  out += fmt::format(",{},{}\n", note.outstanding, note.again ? 1 : 0);
  if (out.size() > (1U << 18)) s.packets.flush();
}

void CsvTables::restart() {
  const std::string directory = state_->directory;
  const bool packets = state_->with_packets;
  auto again = create(directory, packets);
  if (again)
    state_ = std::move((*again)->state_);
  else
    state_->error = again.error();
}

tl::expected<void, std::string> CsvTables::finish() {
  State& s = *state_;
  const std::scoped_lock lock(s.mutex);
  const std::array tables{&s.connections,     &s.flows,     &s.messages, &s.events,
                          &s.mrc_connections, &s.mrc_paths, &s.packets};
  for (State::Table* const table : tables) {
    table->flush();
    if (!table->error.empty()) return tl::unexpected(table->error);
  }
  for (State::Table* const table : tables) {
    if (!table->file) continue;
    const auto done = table->file->commit();
    table->file.reset();
    if (!done) return done;
  }
  return {};
}

}  // namespace rdmawire::captures::analysis
