#pragma once
/// A capture file as a wire, in virtual time: what is sent is written with the time that was asked for, and what is
/// read arrives at the time that it was captured at. Nobody waits.

#include <string>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct FileWireOptions {
  std::string path;   ///< pcap when it ends in .pcap or .cap, pcapng otherwise; .gz and .zst compress; - is a pipe
  bool read = false;  ///< the capture's frames arrive; otherwise the file is made anew
  LinkType link = LinkType::ethernet;  ///< of what is written; what is read says so itself
  std::string name = {};               ///< of the wire; empty: "file:" + path
};

/// Written, every frame keeps its bytes and its time, whether times rise or not; time 0 is the latest so far. now() is
/// that latest time. A time before 1970 is an error, and so is a disk that is full: flush() tells when the bytes have
/// reached the file. Read, now() advances with receive(); after the last frame it gives WireError::Kind::down.
WireResult<std::unique_ptr<Wire>> open_file_wire(const FileWireOptions& options);
WireResult<std::unique_ptr<Wire>> open_file_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
