#include "replay/wires/xdp_program.hpp"

#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "replay/wires/error.hpp"

namespace rdmawire::replay {
namespace {

int bpf(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

// return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS);
std::array<bpf_insn, 6> program_for(int map) {
  constexpr std::uint8_t load_u32 = BPF_LDX | BPF_MEM | BPF_W, load_map = BPF_LD | BPF_DW | BPF_IMM,
                         set = BPF_ALU64 | BPF_MOV | BPF_K, call = BPF_JMP | BPF_CALL, leave = BPF_JMP | BPF_EXIT;
  return {{{load_u32, BPF_REG_2, BPF_REG_1, offsetof(xdp_md, rx_queue_index), 0},
           {load_map, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map},
           {0, 0, 0, 0, 0},
           {set, BPF_REG_3, 0, 0, XDP_PASS},
           {call, 0, 0, 0, BPF_FUNC_redirect_map},
           {leave, 0, 0, 0, 0}}};
}

}  // namespace

WireResult<XdpProgram> XdpProgram::attach(const Interface& interface, std::uint32_t queue, int socket) {
  XdpProgram made;
  const auto failed = [&](std::string_view doing) {
    WireError error = interface.failed(doing, errno);
    if (error.kind == WireError::Kind::forbidden)
      error.message += "; receiving also requires CAP_BPF and CAP_NET_ADMIN, or use noreceive";
    if (error.number == EBUSY || error.number == EEXIST)
      error.message += "; the interface already has an XDP program (ip link show), or another socket uses the queue";
    return tl::unexpected(std::move(error));
  };
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_XSKMAP;
  attributes.key_size = attributes.value_size = 4;
  attributes.max_entries = queue + 1;
  made.map_ = Descriptor(bpf(BPF_MAP_CREATE, attributes));
  if (!made.map_) return failed("create the socket map");

  attributes = {};
  attributes.map_fd = static_cast<std::uint32_t>(made.map_.get());
  attributes.key = reinterpret_cast<std::uintptr_t>(&queue);
  attributes.value = reinterpret_cast<std::uintptr_t>(&socket);
  if (bpf(BPF_MAP_UPDATE_ELEM, attributes) != 0) return failed("add the socket to its map");

  const auto instructions = program_for(made.map_.get());
  // Kernels before 5.18 reject the flag for multi-buffer frames. The second attempt omits it.
  for (const std::uint32_t flags : {1U << 5 /* BPF_F_XDP_HAS_FRAGS */, 0U}) {
    attributes = {};
    attributes.prog_type = BPF_PROG_TYPE_XDP;
    attributes.insns = reinterpret_cast<std::uintptr_t>(instructions.data());
    attributes.insn_cnt = instructions.size();
    attributes.license = reinterpret_cast<std::uintptr_t>("MIT");
    attributes.prog_flags = flags;
    made.program_ = Descriptor(bpf(BPF_PROG_LOAD, attributes));
    if (made.program_ || errno != EINVAL) break;
  }
  if (!made.program_) return failed("load the XDP program");

  for (const auto& [flags, how] : {std::pair{XDP_FLAGS_DRV_MODE, "native"}, std::pair{XDP_FLAGS_SKB_MODE, "generic"}}) {
    attributes = {};
    attributes.link_create.prog_fd = static_cast<std::uint32_t>(made.program_.get());
    attributes.link_create.target_ifindex = interface.index();
    attributes.link_create.attach_type = BPF_XDP;
    attributes.link_create.flags = flags;
    made.link_ = Descriptor(bpf(BPF_LINK_CREATE, attributes));
    made.how_ = how;
    if (made.link_ || errno == EBUSY || errno == EEXIST || errno == EPERM) break;
  }
  if (!made.link_) return failed("attach the XDP program");
  return made;
}

}  // namespace rdmawire::replay
