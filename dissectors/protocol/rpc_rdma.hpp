#pragma once
/// RPC-over-RDMA version 1 (RFC 8166), its private data (RFC 8797), and the header of the RPC message that follows (RFC
/// 5531).

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace rpc_rdma_procedure {
inline constexpr std::uint32_t msg = 0, nomsg = 1, msgp = 2, done = 3, error = 4;
}
inline constexpr Name rpc_rdma_procedure_entries[] = {
    {rpc_rdma_procedure::msg, "RDMA_MSG", "chunk lists, then an RPC message"},
    {rpc_rdma_procedure::nomsg, "RDMA_NOMSG", "chunk lists (the RPC message is in a chunk)"},
    {rpc_rdma_procedure::msgp, "RDMA_MSGP", "an RPC message with padding inside (obsolete)"},
    {rpc_rdma_procedure::done, "RDMA_DONE", "the chunks were read (obsolete)"},
    {rpc_rdma_procedure::error, "RDMA_ERROR", "the header could not be parsed"},
};
inline constexpr Names rpc_rdma_procedure_names{"RPC-over-RDMA procedure", rpc_rdma_procedure_entries,
                                                "RFC 8166, 4.2.4"};

/// The fixed header. Its variable part contains the chunk lists, preceded by the fields of RDMA_MSGP, or the fields of
/// RDMA_ERROR.
struct RpcRdma {
  static constexpr std::string_view name = "rpcordma", title = "RPC-over-RDMA", section = "RFC 8166, 4.2";
  static constexpr std::size_t size = 16;
  static constexpr std::string_view tail = "chunks";
  static constexpr std::uint32_t version_1 = 1;
  static constexpr std::array fields{
      field("xid", 0, 32, "transaction ID of the RPC message").hex().alias("rpcordma.xid"),
      field("version", 32, 32, "1").alias("rpcordma.version"),
      field("credits", 64, 32, "call: requested credits (reply: granted credits)").alias("rpcordma.flow_control"),
      field("procedure", 96, 32, "message type").of(rpc_rdma_procedure_names).alias("rpcordma.msg_type"),
  };
  static Parts parts(Bytes header);
};

/// One segment of the read list: data that the receiver reads from the sender.
struct RpcRdmaRead {
  static constexpr std::string_view name = "rpcordma_read", title = "RPC-over-RDMA read segment",
                                    section = "RFC 8166, 4.3";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("present", 0, 32, "1: the list has another segment"),
      field("position", 32, 32, "position of the data in the RPC message (0: the data is the message)")
          .alias("rpcordma.position"),
      field("handle", 64, 32, "remote key or STag").hex().alias("rpcordma.rdma_handle"),
      field("length", 96, 32, "bytes").alias("rpcordma.rdma_length"),
      field("offset", 128, 64, "remote address or tagged offset").hex().alias("rpcordma.rdma_offset"),
  };
};

/// Start of a chunk of the write list, or of the reply chunk.
struct RpcRdmaChunk {
  static constexpr std::string_view name = "rpcordma_chunk", title = "RPC-over-RDMA write or reply chunk",
                                    section = "RFC 8166, 4.3";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("present", 0, 32, "1: a chunk follows"),
      field("segments", 32, 32, "segments of the chunk").alias("rpcordma.segment_count"),
  };
};

/// One segment of a write or reply chunk: memory that the receiver writes.
struct RpcRdmaSegment {
  static constexpr std::string_view name = "rpcordma_segment", title = "RPC-over-RDMA segment",
                                    section = "RFC 8166, 4.3";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      field("handle", 0, 32, "remote key or STag").hex().alias("rpcordma.rdma_handle"),
      field("length", 32, 32, "bytes").alias("rpcordma.rdma_length"),
      field("offset", 64, 64, "remote address or tagged offset").hex().alias("rpcordma.rdma_offset"),
  };
};

/// End of the read list or of the write list, or absence of a reply chunk.
struct RpcRdmaEnd {
  static constexpr std::string_view name = "rpcordma_end", title = "RPC-over-RDMA end of a list",
                                    section = "RFC 8166, 4.3";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{field("present", 0, 32, "0: no more entries")};
};

/// Fields of RDMA_MSGP before the chunk lists.
struct RpcRdmaPadding {
  static constexpr std::string_view name = "rpcordma_padding", title = "RPC-over-RDMA padding parameters",
                                    section = "RFC 8166, 4.6";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("align", 0, 32, "alignment of the data").alias("rpcordma.rdma_align"),
      field("threshold", 32, 32, "minimum data length for alignment").alias("rpcordma.rdma_thresh"),
  };
};

inline constexpr Name rpc_rdma_error_entries[] = {
    {1, "ERR_VERS", "the receiver does not support the version"},
    {2, "ERR_CHUNK", "the chunks are invalid or unusable"},
};
inline constexpr Names rpc_rdma_error_names{"RPC-over-RDMA error", rpc_rdma_error_entries, "RFC 8166, 4.5"};

/// Error code of RDMA_ERROR.
struct RpcRdmaError {
  static constexpr std::string_view name = "rpcordma_error", title = "RPC-over-RDMA error", section = "RFC 8166, 4.5";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("error", 0, 32, "error code").of(rpc_rdma_error_names).alias("rpcordma.errcode")};
};
/// Supported versions: follow the error code ERR_VERS.
struct RpcRdmaVersions {
  static constexpr std::string_view name = "rpcordma_versions", title = "RPC-over-RDMA supported versions",
                                    section = "RFC 8166, 4.5";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("low", 0, 32, "lowest version").alias("rpcordma.vers_low"),
      field("high", 32, 32, "highest version").alias("rpcordma.vers_high"),
  };
};

inline constexpr Name rpc_message_type_entries[] = {{0, "call", ""}, {1, "reply", ""}};
inline constexpr Names rpc_message_type_names{"RPC message type", rpc_message_type_entries, "RFC 5531, 9"};

inline constexpr Name rpc_program_entries[] = {
    {100000, "portmapper", ""},
    {100003, "NFS", ""},
    {100005, "mount", ""},
    {100021, "NLM", ""},
    {100024, "status", ""},
    {100227, "NFS ACL", ""},
    {0x40000000, "NFS callback", "program number of NFSv4 callbacks in Linux"},
};
inline constexpr Names rpc_program_names{"RPC program", rpc_program_entries, "IANA RPC program numbers"};

/// Start of an RPC call.
struct RpcCall {
  static constexpr std::string_view name = "rpc_call", title = "RPC call", section = "RFC 5531, 9";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("xid", 0, 32, "transaction id").hex().alias("rpc.xid"),
      field("type", 32, 32, "0: a call").of(rpc_message_type_names).alias("rpc.msgtyp"),
      field("rpc_version", 64, 32, "2").alias("rpc.version"),
      field("program", 96, 32, "program number").of(rpc_program_names).alias("rpc.program"),
      field("version", 128, 32, "program version").alias("rpc.programversion"),
      field("procedure", 160, 32, "procedure of the program").alias("rpc.procedure"),
  };
};

inline constexpr Name rpc_reply_status_entries[] = {
    {0, "accepted", "the call was accepted (its own status follows)"},
    {1, "denied", "wrong RPC version, or authentication failed"},
};
inline constexpr Names rpc_reply_status_names{"RPC reply status", rpc_reply_status_entries, "RFC 5531, 9"};

/// Start of an RPC reply.
struct RpcReply {
  static constexpr std::string_view name = "rpc_reply", title = "RPC reply", section = "RFC 5531, 9";
  static constexpr std::size_t size = 12;
  static constexpr std::array fields{
      field("xid", 0, 32, "transaction id").hex().alias("rpc.xid"),
      field("type", 32, 32, "1: a reply").of(rpc_message_type_names).alias("rpc.msgtyp"),
      field("status", 64, 32, "accepted or denied").of(rpc_reply_status_names).alias("rpc.replystat"),
  };
};

/// Result of parsing the chunk lists after the fixed header.
struct RpcRdmaChunks {
  enum class Status : std::uint8_t {
    whole,
    cut,       ///< the bytes end inside a list
    malformed  ///< invalid value of a "present" word
  };
  Status status = Status::whole;
  std::uint32_t bytes =
      0;  ///< number of bytes after the fixed header up to the end of the lists, or up to where parsing stopped
};
/// Parses the variable part of `header`, which starts with a complete RpcRdma header.
RpcRdmaChunks read_chunks(Bytes header);

/// Private data of both directions during connection establishment.
struct RpcRdmaPrivate {
  static constexpr std::string_view name = "rpcordma_private", title = "RPC-over-RDMA private data",
                                    section = "RFC 8797, 4";
  static constexpr std::size_t size = 8;
  static constexpr std::uint32_t magic_number = 0xf6ab0e18;
  static constexpr std::array fields{
      field("magic", 0, 32, "0xf6ab0e18").hex(),
      field("version", 32, 8, "version of this format: 1"),
      reserved("reserved", 40, 7),
      field("remote_invalidation", 47, 1, "the sender supports remote invalidation"),
      field("send_size", 48, 8, "maximum SEND size, in units of 1024 bytes, minus 1"),
      field("receive_size", 56, 8, "size of the receive buffers, in units of 1024 bytes, minus 1"),
  };
};

}  // namespace rdmawire
