/// Verbs calls for connections and listeners.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/roce/device.hpp"

namespace rdmawire::device {

namespace {}  // namespace

Result<CmConnection*> Device::find_cm(std::uint32_t cm_id, const char* call) {
  for (auto& [id, connection] : core_.cm.connections)
    if (connection.handle == cm_id && cm_id != 0) return &connection;
  if (core_.cm.listeners.contains(cm_id))
    return refuse(EINVAL, fmt::format("{}: cm_id: {} is a listener", call, cm_id));
  return refuse(ENOENT, fmt::format("{}: cm_id: unknown connection {}", call, cm_id));
}

/// Return the parameters with the QP number of their queue pair handle.
Result<CmParameters> Device::with_queue_pair(CmParameters with, const char* call) {
  if (with.qp == 0) return with;
  const auto qp = find_qp(with.qp, call);
  if (!qp) return tl::unexpected(qp.error());
  const QpType type = (*qp)->options.type;
  if (type != QpType::rc && type != QpType::uc)
    return refuse(EOPNOTSUPP, fmt::format("{}: qp: the reference device's CM supports only RC and UC", call));
  with.qpn = (*qp)->qpn;
  with.srq = with.srq || (*qp)->options.srq != 0;
  return with;
}

Result<Listening> Device::cm_listen(const CmEndpoint& at, std::uint32_t backlog) {
  const auto handle = new_object("cm_listen");
  if (!handle) return tl::unexpected(handle.error());
  const auto port = device::cm_listen(core_, *handle, at, backlog);
  if (!port) {
    --objects_;
    return tl::unexpected(port.error());
  }
  return Listening{*handle, *port};
}

Result<std::uint32_t> Device::cm_connect(const CmEndpoint& to, const Gid& source, CmParameters with) {
  auto parameters = with_queue_pair(std::move(with), "cm_connect");
  if (!parameters) return tl::unexpected(parameters.error());
  const auto handle = new_object("cm_connect");
  if (!handle) return handle;
  auto done = device::cm_connect(core_, *handle, to, source, std::move(*parameters));
  if (!done) {
    // The call may have failed before the connection was created.
    if (!cm_destroy(*handle)) --objects_;
    return tl::unexpected(done.error());
  }
  core_.has_work = true;
  return handle;
}

Result<void> Device::cm_accept(std::uint32_t cm_id, CmParameters with) {
  const auto at = find_cm(cm_id, "cm_accept");
  if (!at) return tl::unexpected(at.error());
  auto parameters = with_queue_pair(std::move(with), "cm_accept");
  if (!parameters) return tl::unexpected(parameters.error());
  return device::cm_accept(core_, **at, std::move(*parameters));
}

Result<void> Device::cm_establish(std::uint32_t cm_id) {
  const auto at = find_cm(cm_id, "cm_establish");
  if (!at) return tl::unexpected(at.error());
  return device::cm_establish(core_, **at);
}

Result<void> Device::cm_reject(std::uint32_t cm_id, Bytes private_data) {
  const auto at = find_cm(cm_id, "cm_reject");
  if (!at) return tl::unexpected(at.error());
  return device::cm_reject(core_, **at, private_data);
}

Result<void> Device::cm_disconnect(std::uint32_t cm_id) {
  const auto at = find_cm(cm_id, "cm_disconnect");
  if (!at) return tl::unexpected(at.error());
  return device::cm_disconnect(core_, **at);
}

Result<void> Device::cm_destroy(std::uint32_t cm_id) {
  if (core_.cm.listeners.erase(cm_id) != 0) {
    // Also destroy pending requests that were not reported to the application.
    std::vector<std::uint32_t> unknown;
    for (const auto& [id, connection] : core_.cm.connections)
      if (connection.listener == cm_id && connection.handle == 0) unknown.push_back(id);
    for (const std::uint32_t id : unknown)
      if (const auto found = core_.cm.connections.find(id); found != core_.cm.connections.end())
        cm_forget(core_, found->second);
    --objects_;
    return {};
  }
  const auto at = find_cm(cm_id, "destroy");
  if (!at) return tl::unexpected(at.error());
  cm_forget(core_, **at);
  --objects_;
  return {};
}

std::optional<CmEvent> Device::get_cm_event() {
  while (!core_.cm.events.empty()) {
    CmEvent event = std::move(core_.cm.events.front());
    core_.cm.events.pop_front();
    const auto found = core_.cm.connections.find(event.connection);
    if (found == core_.cm.connections.end()) continue;
    CmConnection& at = found->second;
    if (at.handle == 0) {
      const auto handle = new_object("cm_listen");
      if (!handle) {
        cm_forget(core_, at);
        continue;
      }
      at.handle = *handle;
    }
    event.cm_id = at.handle;
    return event;
  }
  return std::nullopt;
}

}  // namespace rdmawire::device
