#include "replay/wires/file.hpp"

#include <algorithm>
#include <deque>

#include "captures/io/reader.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/output/json.hpp"
#include "replay/wires/error.hpp"

namespace rdmawire::replay {
namespace {

// Longer frames exceed the writer's snap length and would be marked as truncated.
constexpr std::uint32_t max_bytes = 262'144;
// Upper bound for the bytes that the writer buffers and may lose.
constexpr std::uint64_t most_buffered = 4 << 20;

WireError capture_error(const std::string& name, const captures::CaptureError& error) {
  const bool missing = error.kind == captures::CaptureError::Kind::unreadable;
  return wire_error(missing ? WireError::Kind::missing : WireError::Kind::system, 0, "{}: {}", name,
                    captures::to_string(error));
}

std::string name_of(const FileWireOptions& options) {
  return options.name.empty() ? "file:" + options.path : options.name;
}

class FileWire : public Wire {
 public:
  explicit FileWire(const FileWireOptions& options) : name_(name_of(options)) {
    capabilities_.link = options.link;
    capabilities_.max_bytes = max_bytes;
    capabilities_.batch = 64;
    capabilities_.paces = true;
    capabilities_.virtual_time = true;
    capabilities_.sends = !options.read;
    capabilities_.receives = options.read;
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] WireCounters counters() const override { return counters_; }
  [[nodiscard]] std::int64_t now() const override { return now_; }

 protected:
  [[nodiscard]] WireError failed(const captures::CaptureError& error) const { return capture_error(name_, error); }
  [[nodiscard]] WireError unable(std::string_view what) const {
    return wire_error(WireError::Kind::unsupported, 0, "{}: {}", name_, what);
  }

  std::string name_;
  WireCapabilities capabilities_;
  WireCounters counters_;
  std::int64_t now_ = 0;
  bool closed_ = false;
};

class WrittenFile final : public FileWire, public CommentStore {
 public:
  WrittenFile(const FileWireOptions& options, captures::Writer writer)
      : FileWire(options), writer_(std::move(writer)) {}
  ~WrittenFile() override { close(); }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    for (std::size_t sent = 0; sent < frames.size(); ++sent) {
      const Outgoing& frame = frames[sent];
      const std::string_view comment = sent < comments_.size() ? comments_[sent] : std::string_view();
      if (auto written = write(frame, comment); !written) {
        comments_ = {};
        if (sent > 0) return sent;
        return tl::unexpected(written.error());
      }
    }
    comments_ = {};
    return frames.size();
  }

  void comment(std::span<const std::string_view> comments) override { comments_ = comments; }

  WireResult<std::optional<Received>> receive(std::int64_t deadline) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    if (deadline == forever) return tl::unexpected(unable("receive: the file is open for writing; use file:PATH,read"));
    now_ = std::max(now_, deadline);
    return std::nullopt;
  }

  WireResult<bool> flush(std::int64_t /*deadline*/) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    if (auto flushed = writer_.flush(); !flushed) return fail(flushed.error());
    return true;
  }

  void close() override {
    closed_ = true;
    if (auto closed = writer_.close(); !closed) static_cast<void>(fail(closed.error()));
  }

 private:
  WireResult<void> write(const Outgoing& frame, std::string_view comment) {
    const std::int64_t time = frame.time == 0 ? now_ : frame.time;
    if (frame.frame.size() > max_bytes || time < 0)
      return tl::unexpected(wire_error(
          WireError::Kind::frame, 0, "{}: frame of {} bytes at {} ns; the maximum is {} bytes and times start at 1970",
          name_, frame.frame.size(), time, max_bytes));
    captures::Record record;
    record.bytes = frame.frame;
    record.time = time;
    record.wire_length = static_cast<std::uint32_t>(frame.frame.size());
    record.link = capabilities_.link;
    const auto written = comment.empty() ? writer_.write(record) : writer_.write(record, std::span(&comment, 1));
    if (!written) return fail(written.error());
    now_ = std::max(now_, time);
    ++counters_.sent;
    counters_.sent_bytes += frame.frame.size();
    lately_.push_back(record.wire_length);
    for (lately_bytes_ += record.wire_length; lately_bytes_ > most_buffered; lately_.pop_front())
      lately_bytes_ -= lately_.front();
    return {};
  }

  // Frames that the writer accepted but could not write count as unsent.
  tl::unexpected<WireError> fail(const captures::CaptureError& error) {
    for (; counters_.sent > writer_.records() && !lately_.empty(); --counters_.sent) {
      counters_.sent_bytes -= lately_.back();
      lately_.pop_back();
    }
    return tl::unexpected(failed(error));
  }

  captures::Writer writer_;
  std::span<const std::string_view> comments_;  // of the next frames
  std::deque<std::uint32_t> lately_;            // lengths of the most recently written frames
  std::uint64_t lately_bytes_ = 0;
};

class ReadFile final : public FileWire {
 public:
  ReadFile(const FileWireOptions& options, captures::Reader reader) : FileWire(options), reader_(std::move(reader)) {
    look_ahead();
    now_ = state_ == captures::Next::record ? record_.time : 0;  // a timeout is relative to the first frame
    if (state_ == captures::Next::record)
      capabilities_.link = record_.link;
    else if (!reader_.interfaces().empty())
      capabilities_.link = reader_.interfaces().front().link;
  }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> /*frames*/) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    return tl::unexpected(unable("send: the file is open for reading; remove read to create it"));
  }

  WireResult<std::optional<Received>> receive(std::int64_t deadline) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    if (given_) look_ahead();
    given_ = false;
    if (state_ == captures::Next::error) return tl::unexpected(failed(reader_.error()));
    if (state_ != captures::Next::record)
      return tl::unexpected(wire_error(WireError::Kind::down, 0, "{}: receive: end of the capture after {} frames",
                                       name_, counters_.received));
    if (record_.link != capabilities_.link)
      return tl::unexpected(
          unable(fmt::format("receive: frame {} has link type {}, the preceding frames have {}", record_.number,
                             output::link_name(record_.link), output::link_name(capabilities_.link))));
    if (record_.time > deadline) {
      now_ = std::max(now_, deadline);
      return std::nullopt;
    }
    given_ = true;
    now_ = std::max(now_, record_.time);
    ++counters_.received;
    counters_.received_bytes += record_.wire_length;
    return Received{record_.bytes, record_.time, record_.wire_length, false};
  }

  void close() override { closed_ = true; }

 private:
  void look_ahead() { state_ = reader_.next(record_); }

  captures::Reader reader_;
  captures::Record record_;  // the next record
  captures::Next state_ = captures::Next::end;
  bool given_ = false;
};

}  // namespace

WireResult<std::unique_ptr<Wire>> open_file_wire(const FileWireOptions& options) {
  if (options.read) {
    auto reader = captures::Reader::open(options.path);
    if (!reader) return tl::unexpected(capture_error(name_of(options), reader.error()));
    return std::make_unique<ReadFile>(options, std::move(*reader));
  }
  captures::Writer::Options how;
  how.section.application = "rdmawire";
  auto writer = captures::Writer::create(options.path, how);
  if (!writer) return tl::unexpected(capture_error(name_of(options), writer.error()));
  captures::Interface interface;
  interface.link = options.link;
  if (auto added = writer->add_interface(interface); !added)
    return tl::unexpected(capture_error(name_of(options), added.error()));
  return std::make_unique<WrittenFile>(options, std::move(*writer));
}

WireResult<std::unique_ptr<Wire>> open_file_wire(const WireSpec& spec) {
  if (auto known = spec.check(
          {{"link", true, "link type when writing; default: ethernet"}, {"read", false, "read frames from the file"}});
      !known)
    return tl::unexpected(known.error());
  const auto link = spec.link();
  if (!link) return tl::unexpected(link.error());
  if (spec.has("read") && spec.has("link"))
    return tl::unexpected(
        specification_error(spec.text, "link cannot be used with read, because the file specifies its link type"));
  return open_file_wire(FileWireOptions{spec.address, spec.has("read"), *link, spec.text});
}

}  // namespace rdmawire::replay
