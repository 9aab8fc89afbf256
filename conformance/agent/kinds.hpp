#pragma once
/// Verbs objects of a session.

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "conformance/agent/session.hpp"

namespace rdmawire::agent {

namespace names = rpc::names;

/// An open device. Its asynchronous events are sent to the controller.
class Device : public Object {
 public:
  static constexpr Kind own_kind = Kind::device;
  /// `owned`: true if release() must close the context.
  Device(Session& session, ibv_context* context, bool owned);
  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] Json about() const override;
  [[nodiscard]] bool needs_guard() const override { return true; }
  int release() override;

  [[nodiscard]] ibv_context* context() const { return context_; }

 private:
  void read_event();

  Session* session_;
  ibv_context* context_;
  bool owned_;
  Loop::Watch events_;
};

/// An object that consists of a verbs pointer and the function that destroys it.
template <class Verbs, int (*destroy)(Verbs*)>
class VerbsObject : public Object {
 public:
  explicit VerbsObject(Verbs* verbs) : verbs_(verbs) {}
  int release() override { return std::abs(destroy(verbs_)); }
  [[nodiscard]] Verbs* verbs() const { return verbs_; }

 private:
  Verbs* verbs_;
};

class Pd : public VerbsObject<ibv_pd, ibv_dealloc_pd> {
 public:
  static constexpr Kind own_kind = Kind::pd;
  using VerbsObject::VerbsObject;
  [[nodiscard]] Kind kind() const override { return own_kind; }
};

inline int close_xrcd(ibv_xrcd* xrcd) { return ibv_close_xrcd(xrcd); }
class Xrcd : public VerbsObject<ibv_xrcd, close_xrcd> {
 public:
  static constexpr Kind own_kind = Kind::xrcd;
  using VerbsObject::VerbsObject;
  [[nodiscard]] Kind kind() const override { return own_kind; }
};

class Ah : public VerbsObject<ibv_ah, ibv_destroy_ah> {
 public:
  static constexpr Kind own_kind = Kind::ah;
  using VerbsObject::VerbsObject;
  [[nodiscard]] Kind kind() const override { return own_kind; }
};

inline int dealloc_mw(ibv_mw* mw) { return ibv_dealloc_mw(mw); }
class Mw : public VerbsObject<ibv_mw, dealloc_mw> {
 public:
  static constexpr Kind own_kind = Kind::mw;
  using VerbsObject::VerbsObject;
  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] Json about() const override { return {{"rkey", verbs()->rkey}}; }
};

/// A completion channel. Its events are sent to the controller.
class Channel : public VerbsObject<ibv_comp_channel, ibv_destroy_comp_channel> {
 public:
  static constexpr Kind own_kind = Kind::channel;
  Channel(Session& session, ibv_comp_channel* channel);
  [[nodiscard]] Kind kind() const override { return own_kind; }
  int release() override;

 private:
  void read_event();

  Session* session_;
  Loop::Watch events_;
};

class Cq : public VerbsObject<ibv_cq, ibv_destroy_cq> {
 public:
  static constexpr Kind own_kind = Kind::cq;
  using VerbsObject::VerbsObject;
  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] Json about() const override { return {{"cqe", verbs()->cqe}}; }
};

/// A memory region and its mapped memory.
class Mr : public Object {
 public:
  static constexpr Kind own_kind = Kind::mr;
  Mr(Session& session, ibv_mr* mr, std::uint8_t* memory, std::size_t length, std::uint64_t iova);
  ~Mr() override;
  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] Json about() const override;
  int release() override;

  [[nodiscard]] ibv_mr* verbs() const { return mr_; }
  [[nodiscard]] std::uint8_t* memory() const { return memory_; }
  [[nodiscard]] std::size_t length() const { return length_; }
  /// Address of the region's first byte for accesses with its lkey or rkey.
  [[nodiscard]] std::uint64_t iova() const { return iova_; }

 private:
  Session* session_;
  ibv_mr* mr_;
  std::uint8_t* memory_;
  std::size_t length_;
  std::uint64_t iova_;
};

class Srq : public VerbsObject<ibv_srq, ibv_destroy_srq> {
 public:
  static constexpr Kind own_kind = Kind::srq;
  Srq(ibv_srq* srq, std::uint32_t granted_sge) : VerbsObject(srq), most_sge(granted_sge) {}
  [[nodiscard]] Kind kind() const override { return own_kind; }
  const std::uint32_t most_sge;
};

class Qp : public VerbsObject<ibv_qp, ibv_destroy_qp> {
 public:
  static constexpr Kind own_kind = Kind::qp;
  /// `most`: granted capabilities. `ops`: ibv_qp_create_send_ops_flags.
  Qp(ibv_qp* qp, const ibv_qp_cap& most, std::uint64_t ops) : VerbsObject(qp), granted(most), send_ops(ops) {}
  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] Json about() const override { return {{"qp_num", verbs()->qp_num}}; }
  const ibv_qp_cap granted;
  const std::uint64_t send_ops;
};

/// Converts an address vector of libibverbs to that of the agent protocol.
rpc::AddressVector address_of(const ibv_ah_attr& address);

/// Returns the attributes for a bind of a window. Default address and length: those of the region. `mr` nullptr:
/// unbind.
ibv_mw_bind_info bind_info(const Mr* mr, std::optional<std::uint64_t> addr, std::optional<std::uint64_t> length,
                           std::uint64_t access);

/// Maps zeroed memory in whole pages. nullptr on failure.
std::uint8_t* map_memory(std::size_t length);
void unmap_memory(std::uint8_t* memory, std::size_t length);

}  // namespace rdmawire::agent
