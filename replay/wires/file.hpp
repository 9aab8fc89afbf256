#pragma once
/// A capture file as a wire, in virtual time. Sent frames are written with their requested times. Frames that are read
/// arrive at their captured times. Calls never block.

#include <span>
#include <string>
#include <string_view>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct FileWireOptions {
  std::string path;   ///< .pcap and .cap: pcap, otherwise pcapng. .gz and .zst compress. -: standard input or output
  bool read = false;  ///< true: frames arrive from the capture. false: the file is created
  LinkType link = LinkType::ethernet;  ///< link type when writing. A capture specifies its own
  std::string name = {};               ///< name of the wire. Empty: "file:" + path
};

/// A wire that can store comments with frames: a written file. pcap omits them.
class CommentStore {
 public:
  virtual ~CommentStore() = default;
  /// Comments for the frames of the next send() call, by index. Empty: none.
  virtual void comment(std::span<const std::string_view> comments) = 0;
};

/// Writing: frames keep their bytes and times, which may decrease. Time 0 is replaced by the latest time so far. now()
/// is the latest time. Times before 1970 and a full disk are errors. flush() waits until the bytes are in the file.
/// Reading: now() advances with receive(), which returns WireError::Kind::down after the last frame.
WireResult<std::unique_ptr<Wire>> open_file_wire(const FileWireOptions& options);
WireResult<std::unique_ptr<Wire>> open_file_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
