#pragma once
/// Verbs objects of a session.

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "conformance/agent/session.hpp"

namespace rdmawire::agent {

/// An open device. Its asynchronous events are sent to the controller.
class Device : public Object {
 public:
  static constexpr std::string_view name = "device";
  /// `owned`: release() closes the context.
  Device(Session& session, ibv_context* context, bool owned);
  [[nodiscard]] std::string_view kind() const override { return name; }
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
  static constexpr std::string_view name = "pd";
  using VerbsObject::VerbsObject;
  [[nodiscard]] std::string_view kind() const override { return name; }
};

inline int close_xrcd(ibv_xrcd* xrcd) { return ibv_close_xrcd(xrcd); }
class Xrcd : public VerbsObject<ibv_xrcd, close_xrcd> {
 public:
  static constexpr std::string_view name = "xrcd";
  using VerbsObject::VerbsObject;
  [[nodiscard]] std::string_view kind() const override { return name; }
};

class Ah : public VerbsObject<ibv_ah, ibv_destroy_ah> {
 public:
  static constexpr std::string_view name = "ah";
  using VerbsObject::VerbsObject;
  [[nodiscard]] std::string_view kind() const override { return name; }
};

inline int dealloc_mw(ibv_mw* mw) { return ibv_dealloc_mw(mw); }
class Mw : public VerbsObject<ibv_mw, dealloc_mw> {
 public:
  static constexpr std::string_view name = "mw";
  using VerbsObject::VerbsObject;
  [[nodiscard]] std::string_view kind() const override { return name; }
  [[nodiscard]] Json about() const override { return {{"rkey", verbs()->rkey}}; }
};

/// A completion channel. Its events are sent to the controller.
class Channel : public VerbsObject<ibv_comp_channel, ibv_destroy_comp_channel> {
 public:
  static constexpr std::string_view name = "channel";
  Channel(Session& session, ibv_comp_channel* channel);
  [[nodiscard]] std::string_view kind() const override { return name; }
  int release() override;

 private:
  void read_event();

  Session* session_;
  Loop::Watch events_;
};

class Cq : public VerbsObject<ibv_cq, ibv_destroy_cq> {
 public:
  static constexpr std::string_view name = "cq";
  using VerbsObject::VerbsObject;
  [[nodiscard]] std::string_view kind() const override { return name; }
  [[nodiscard]] Json about() const override { return {{"cqe", verbs()->cqe}}; }
};

/// A memory region and its mapped memory.
class Mr : public Object {
 public:
  static constexpr std::string_view name = "mr";
  Mr(Session& session, ibv_mr* mr, std::uint8_t* memory, std::size_t length, std::uint64_t iova);
  ~Mr() override;
  [[nodiscard]] std::string_view kind() const override { return name; }
  [[nodiscard]] Json about() const override;
  int release() override;

  [[nodiscard]] ibv_mr* verbs() const { return mr_; }
  [[nodiscard]] std::uint8_t* memory() const { return memory_; }
  [[nodiscard]] std::size_t length() const { return length_; }
  /// Address of its first byte for local and remote keys.
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
  static constexpr std::string_view name = "srq";
  Srq(ibv_srq* srq, std::uint32_t granted_sge) : VerbsObject(srq), most_sge(granted_sge) {}
  [[nodiscard]] std::string_view kind() const override { return name; }
  const std::uint32_t most_sge;
};

class Qp : public VerbsObject<ibv_qp, ibv_destroy_qp> {
 public:
  static constexpr std::string_view name = "qp";
  /// `most`: granted capabilities. `ops`: ibv_qp_create_send_ops_flags.
  Qp(ibv_qp* qp, const ibv_qp_cap& most, std::uint64_t ops) : VerbsObject(qp), granted(most), send_ops(ops) {}
  [[nodiscard]] std::string_view kind() const override { return name; }
  [[nodiscard]] Json about() const override { return {{"qp_num", verbs()->qp_num}}; }
  const ibv_qp_cap granted;
  const std::uint64_t send_ops;
};

/// Maps zeroed memory in whole pages. nullptr on failure.
std::uint8_t* map_memory(std::size_t length);
void unmap_memory(std::uint8_t* memory, std::size_t length);

}  // namespace rdmawire::agent
