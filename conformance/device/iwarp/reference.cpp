#include "conformance/device/iwarp/reference.hpp"

namespace rdmawire::endpoint {

ReferenceEndpoint::ReferenceEndpoint(AdapterOptions options)
    : adapter_(std::move(options)),
      tcp_(adapter_),
      handler_(adapter_, [this](std::int64_t until) { return tcp_.step(until); }) {}

peer::PeerResult<std::unique_ptr<ReferenceEndpoint>> ReferenceEndpoint::start(AdapterOptions options) {
  std::unique_ptr<ReferenceEndpoint> made(new ReferenceEndpoint(std::move(options)));
  auto server = device::RpcServer::start(made->tcp_.mutex(), [&own = *made](std::string_view line) {
    auto lines = own.handler_.process_line(line);
    own.tcp_.settle();
    // Append the events that sending the data has caused.
    for (std::string& event : own.events()) lines.push_back(std::move(event));
    return lines;
  });
  if (!server) return tl::unexpected(server.error());
  made->server_ = std::move(*server);
  made->tcp_.on_device_event([&own = *made] { own.server_->send_lines(own.events()); });
  return made;
}

std::vector<std::string> ReferenceEndpoint::events() {
  std::vector<std::string> lines;
  for (const device::Json& event : handler_.events()) lines.push_back(event.dump());
  return lines;
}

void ReferenceEndpoint::set_fault(Fault fault) {
  const std::lock_guard lock(tcp_.mutex());
  adapter_.rnic().set_fault(fault);
}

void ReferenceEndpoint::set_faults(std::span<const Fault> faults, std::vector<const IwarpBlindFault*> blind) {
  const std::lock_guard lock(tcp_.mutex());
  adapter_.rnic().clear_faults();
  for (const Fault fault : faults) adapter_.rnic().set_fault(fault);
  adapter_.rnic().set_blind_faults(std::move(blind));
}

std::vector<const IwarpBlindFault*> ReferenceEndpoint::blind_faults() {
  const std::lock_guard lock(tcp_.mutex());
  return adapter_.rnic().blind_faults();
}

bool ReferenceEndpoint::has_fault(Fault fault) {
  const std::lock_guard lock(tcp_.mutex());
  return adapter_.rnic().faults()[fault];
}

void ReferenceEndpoint::wish(const machines::MpaSettings& mpa) {
  const std::lock_guard lock(tcp_.mutex());
  adapter_.wish(mpa);
}

machines::MpaSettings ReferenceEndpoint::wished() {
  const std::lock_guard lock(tcp_.mutex());
  return adapter_.wished();
}

void ReferenceEndpoint::set_extensions(bool on) {
  const std::lock_guard lock(tcp_.mutex());
  adapter_.rnic().set_extensions(on);
}

void ReferenceEndpoint::set_emss(std::uint32_t emss) {
  const std::lock_guard lock(tcp_.mutex());
  adapter_.set_emss(emss);
}

}  // namespace rdmawire::endpoint
