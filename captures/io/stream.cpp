#include "captures/io/stream.hpp"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "captures/io/interrupt.hpp"

namespace rdmawire::captures {

namespace {

using Kind = CaptureError::Kind;

class DescriptorStream final : public Stream {
 public:
  DescriptorStream(int descriptor, bool owned) : descriptor_(descriptor), owned_(owned) {}
  ~DescriptorStream() override {
    if (owned_) ::close(descriptor_);
  }
  std::size_t read(std::uint8_t* to, std::size_t max_bytes) override {
    if (error_) return 0;
    for (;;) {
      if (InterruptScope::active() && !InterruptScope::wait_readable(descriptor_)) {
        error_ = ReadError{Kind::unreadable, "interrupted"};
        return 0;
      }
      const ssize_t count = ::read(descriptor_, to, max_bytes);
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno == EINTR) continue;
      error_ = ReadError{Kind::unreadable, std::string("read error: ") + std::strerror(errno)};
      return 0;
    }
  }

 private:
  int descriptor_;
  bool owned_;
};

class MemoryStream final : public Stream {
 public:
  explicit MemoryStream(Bytes memory) : left_(memory) {}
  std::size_t read(std::uint8_t* to, std::size_t max_bytes) override {
    const std::size_t count = std::min(max_bytes, left_.size());
    std::copy_n(left_.begin(), count, to);
    left_ = left_.subspan(count);
    return count;
  }

 private:
  Bytes left_;
};

/// Base class of both decompressors: a buffer of compressed bytes, and the number of bytes that were consumed.
class Decompressor : public Stream {
 public:
  explicit Decompressor(std::unique_ptr<Stream> compressed) : compressed_(std::move(compressed)), input_(64 * 1024) {}

 protected:
  /// Returns the compressed bytes that were not consumed yet. If there are none, reads more. Empty at the end, or on an
  /// error.
  Bytes available() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = compressed_->read(input_.data(), input_.size());
      if (end_ == 0 && compressed_->error()) error_ = compressed_->error();
    }
    return {input_.data() + begin_, end_ - begin_};
  }
  void consume(std::size_t count) {
    begin_ += count;
    consumed_ += count;
  }
  void broken(const char* format, const std::string& why) {
    error_ = ReadError{Kind::compression, std::string("the ") + format + " stream is corrupt near byte " +
                                              std::to_string(consumed_) + " of the compressed file: " + why};
  }
  void cut(const char* format) {
    if (!error_)
      error_ = ReadError{Kind::compression, std::string("the ") + format + " stream is truncated at byte " +
                                                std::to_string(consumed_) + " of the compressed file"};
  }

 private:
  std::unique_ptr<Stream> compressed_;
  std::vector<std::uint8_t> input_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t consumed_ = 0;
};

class GzipStream final : public Decompressor {
 public:
  explicit GzipStream(std::unique_ptr<Stream> compressed) : Decompressor(std::move(compressed)) {
    constexpr int gzip_only = 15 + 16;  // zlib.h, inflateInit2: maximum window, gzip header required
    if (inflateInit2(&state_, gzip_only) != Z_OK)
      broken("gzip", "zlib is out of memory");
    else
      ready_ = true;
  }
  ~GzipStream() override {
    if (ready_) inflateEnd(&state_);
  }
  std::size_t read(std::uint8_t* to, std::size_t max_bytes) override {
    while (!error_ && !finished_) {
      const Bytes in = available();
      if (in.empty()) {
        if (inside_) cut("gzip");
        finished_ = true;
        break;
      }
      if (!inside_ && !begin_member(in)) continue;
      const uInt space = static_cast<uInt>(std::min<std::size_t>(max_bytes, std::numeric_limits<uInt>::max()));
      state_.next_in = const_cast<std::uint8_t*>(in.data());  // zlib does not modify the input
      state_.avail_in = static_cast<uInt>(in.size());
      state_.next_out = to;
      state_.avail_out = space;
      const int result = inflate(&state_, Z_NO_FLUSH);
      consume(in.size() - state_.avail_in);
      const std::size_t produced = space - state_.avail_out;
      if (result == Z_STREAM_END) {
        inside_ = false;
        ++members_;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        broken("gzip", state_.msg ? state_.msg : "zlib error " + std::to_string(result));
      }
      if (produced > 0) return produced;
    }
    return 0;
  }

 private:
  /// Starts a member. Skips zeros between members (padding of tapes and block devices), like gzip.
  bool begin_member(Bytes in) {
    if (in[0] == 0 && members_ > 0) {
      consume(static_cast<std::size_t>(std::find_if(in.begin(), in.end(), [](std::uint8_t b) { return b != 0; }) -
                                       in.begin()));
      return false;
    }
    inflateReset(&state_);
    inside_ = true;
    return true;
  }
  z_stream state_{};
  bool ready_ = false;
  bool inside_ = false;
  bool finished_ = false;
  std::uint64_t members_ = 0;
};

class ZstdStream final : public Decompressor {
 public:
  explicit ZstdStream(std::unique_ptr<Stream> compressed)
      : Decompressor(std::move(compressed)), state_(ZSTD_createDStream()) {
    if (!state_)
      broken("zstd", "out of memory");
    else
      ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, 27);
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }
  std::size_t read(std::uint8_t* to, std::size_t max_bytes) override {
    while (!error_) {
      // zstd may still have decompressed bytes after it consumed all input, so call it without input first.
      Bytes in;
      if (!flush_) {
        in = available();
        if (in.empty()) {
          if (inside_) cut("zstd");
          break;
        }
      }
      ZSTD_inBuffer from{in.data(), in.size(), 0};
      ZSTD_outBuffer out{to, max_bytes, 0};
      const std::size_t result = ZSTD_decompressStream(state_, &out, &from);
      consume(from.pos);
      if (ZSTD_isError(result)) {
        broken("zstd", ZSTD_getErrorName(result));
      } else {
        inside_ = result != 0;
        flush_ = inside_ && out.pos == max_bytes;
      }
      if (out.pos > 0) return out.pos;
      flush_ = false;
    }
    return 0;
  }

 private:
  ZSTD_DStream* state_;
  bool inside_ = false;
  bool flush_ = false;
};

}  // namespace

std::unique_ptr<Stream> descriptor_stream(int descriptor, bool owned) {
  return std::make_unique<DescriptorStream>(descriptor, owned);
}
std::unique_ptr<Stream> memory_stream(Bytes memory) { return std::make_unique<MemoryStream>(memory); }
std::unique_ptr<Stream> gzip_stream(std::unique_ptr<Stream> compressed) {
  return std::make_unique<GzipStream>(std::move(compressed));
}
std::unique_ptr<Stream> zstd_stream(std::unique_ptr<Stream> compressed) {
  return std::make_unique<ZstdStream>(std::move(compressed));
}

PeekedStream::PeekedStream(std::unique_ptr<Stream> from) : from_(std::move(from)) {
  while (count_ < capacity) {
    const std::size_t count = from_->read(first_ + count_, capacity - count_);
    if (count == 0) break;
    count_ += count;
  }
  error_ = from_->error();
}

std::size_t PeekedStream::read(std::uint8_t* to, std::size_t max_bytes) {
  if (taken_ < count_) {
    const std::size_t count = std::min(max_bytes, count_ - taken_);
    std::memcpy(to, first_ + taken_, count);
    taken_ += count;
    return count;
  }
  const std::size_t count = from_->read(to, max_bytes);
  if (count == 0) error_ = from_->error();
  return count;
}

}  // namespace rdmawire::captures
