#include "replay/wires/wire.hpp"

#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "dissectors/output/edit_distance.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/file.hpp"
#include "replay/wires/null.hpp"
#include "replay/wires/packet.hpp"
#include "replay/wires/sending.hpp"
#include "replay/wires/spec.hpp"
#include "replay/wires/unix.hpp"
#include "replay/wires/verbs.hpp"
#include "replay/wires/xdp.hpp"

namespace rdmawire::replay {

std::int64_t Wire::now() const { return wire_clock::now(); }

WireResult<bool> Wire::writable(std::int64_t /*deadline*/) { return true; }

WireResult<bool> Wire::flush(std::int64_t /*deadline*/) { return true; }

WireResult<void> Wire::send(Bytes frame) {
  const Outgoing outgoing{frame, 0};
  const auto sent = send(std::span(&outgoing, 1));
  if (!sent) return tl::unexpected(sent.error());
  if (*sent == 0) return tl::unexpected(WireError{WireError::Kind::full, 0, name() + ": the queue is full"});
  return {};
}

WireResult<std::size_t> send_all(Wire& wire, std::span<const Outgoing> frames, std::int64_t deadline) {
  std::size_t sent = 0;
  while (sent < frames.size()) {
    const auto taken = wire.send(frames.subspan(sent));
    if (!taken && taken.error().kind != WireError::Kind::full) {
      if (sent == 0) return taken;
      return sent;
    }
    sent += taken.value_or(0);
    if (sent == frames.size()) break;
    const auto room = wire.writable(deadline);
    if (!room && sent == 0) return tl::unexpected(room.error());
    if (!room || !*room) break;
  }
  return sent;
}

WireResult<std::unique_ptr<Wire>> open_wire(const std::string& name) {
  const auto spec = WireSpec::parse(name);
  if (!spec) return tl::unexpected(spec.error());
  return open_wire(*spec);
}

namespace {

struct Kind {
  std::string_view name, form;
  WireResult<std::unique_ptr<Wire>> (*open)(const WireSpec&);
};
constexpr std::array kinds{
    Kind{"file", "file:PATH", open_file_wire},
    Kind{"null", "null", open_null_wire},
    Kind{"packet", "packet:INTERFACE", open_packet_wire},
    Kind{"unix", "unix:PATH", open_unix_wire},
    Kind{"verbs", "verbs:DEVICE[/PORT]", open_verbs_wire},
    Kind{"xdp", "xdp:INTERFACE", open_xdp_wire},
};

WireResult<const Kind*> kind_of(const WireSpec& spec) {
  if (spec.kind == "null" && !spec.address.empty())
    return tl::unexpected(specification_error(spec.text, "null has no address"));
  std::vector<std::string_view> names, forms;
  for (const Kind& kind : kinds) {
    if (kind.name == spec.kind) return &kind;
    names.push_back(kind.name);
    forms.push_back(kind.form);
  }
  const std::string near = output::did_you_mean(spec.kind, names);
  return tl::unexpected(specification_error(
      spec.text, fmt::format("unknown kind \"{}\"{}", spec.kind,
                             near.empty() ? fmt::format("; expected {}", fmt::join(forms, ", ")) : near)));
}

}  // namespace

WireResult<void> check_kind(const WireSpec& spec) {
  const auto kind = kind_of(spec);
  if (!kind) return tl::unexpected(kind.error());
  return {};
}

WireResult<std::unique_ptr<Wire>> open_wire(const WireSpec& spec) {
  const auto kind = kind_of(spec);
  if (!kind) return tl::unexpected(kind.error());
  return (*kind)->open(spec);
}

}  // namespace rdmawire::replay
