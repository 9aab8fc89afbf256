#include "captures/io/sink.hpp"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace rdmawire::captures {

namespace {

class DescriptorSink final : public Sink {
 public:
  DescriptorSink(int descriptor, bool owned) : descriptor_(descriptor), owned_(owned) {}
  ~DescriptorSink() override { (void)close(); }

  Result write(Bytes bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0) {
        if (errno == EINTR) continue;
        return tl::unexpected(std::string(std::strerror(errno)));
      }
      written_ += static_cast<std::uint64_t>(count);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }
  Result flush() override { return {}; }
  Result close() override {
    if (!std::exchange(owned_, false)) return {};
    if (::close(descriptor_) != 0 && errno != EINTR) return tl::unexpected(std::string(std::strerror(errno)));
    return {};
  }
  [[nodiscard]] std::uint64_t written() const override { return written_; }

 private:
  int descriptor_;
  bool owned_;
  std::uint64_t written_ = 0;
};

class GzipSink final : public Sink {
 public:
  GzipSink(std::unique_ptr<Sink> to, int level) : to_(std::move(to)), out_(256 * 1024) {
    constexpr int gzip_header = 15 + 16, memory_level = 8;
    ready_ = deflateInit2(&state_, level == 0 ? Z_DEFAULT_COMPRESSION : level, Z_DEFLATED, gzip_header, memory_level,
                          Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~GzipSink() override {
    if (ready_) deflateEnd(&state_);
  }
  Result write(Bytes bytes) override { return run(bytes, Z_NO_FLUSH); }
  Result flush() override { return run({}, Z_SYNC_FLUSH); }
  Result close() override {
    if (std::exchange(closed_, true)) return {};
    const Result result = run({}, Z_FINISH);
    const Result last = to_->close();
    return result ? last : result;
  }
  [[nodiscard]] std::uint64_t written() const override { return to_->written(); }

 private:
  Result run(Bytes bytes, int mode) {
    if (!ready_) return tl::unexpected(std::string("zlib: out of memory or unsupported compression level"));
    state_.next_in = const_cast<std::uint8_t*>(bytes.data());  // zlib does not modify the input
    state_.avail_in = static_cast<uInt>(bytes.size());
    do {
      state_.next_out = out_.data();
      state_.avail_out = static_cast<uInt>(out_.size());
      const int result = deflate(&state_, mode);
      if (result == Z_STREAM_ERROR) return tl::unexpected(std::string("zlib rejected the data"));
      if (Result r = to_->write({out_.data(), out_.size() - state_.avail_out}); !r) return r;
    } while (state_.avail_out == 0);
    return {};
  }
  std::unique_ptr<Sink> to_;
  std::vector<std::uint8_t> out_;
  z_stream state_{};
  bool ready_ = false;
  bool closed_ = false;
};

class ZstdSink final : public Sink {
 public:
  ZstdSink(std::unique_ptr<Sink> to, int level)
      : to_(std::move(to)), out_(ZSTD_CStreamOutSize()), state_(ZSTD_createCStream()) {
    if (!state_) return;
    ZSTD_CCtx_setParameter(state_, ZSTD_c_compressionLevel, level == 0 ? ZSTD_CLEVEL_DEFAULT : level);
    ZSTD_CCtx_setParameter(state_, ZSTD_c_checksumFlag, 1);
  }
  ~ZstdSink() override { ZSTD_freeCStream(state_); }
  Result write(Bytes bytes) override { return run(bytes, ZSTD_e_continue); }
  Result flush() override { return run({}, ZSTD_e_flush); }
  Result close() override {
    if (std::exchange(closed_, true)) return {};
    const Result result = run({}, ZSTD_e_end);
    const Result last = to_->close();
    return result ? last : result;
  }
  [[nodiscard]] std::uint64_t written() const override { return to_->written(); }

 private:
  Result run(Bytes bytes, ZSTD_EndDirective mode) {
    if (!state_) return tl::unexpected(std::string("zstd: out of memory"));
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (;;) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const std::size_t left = ZSTD_compressStream2(state_, &out, &in, mode);
      if (ZSTD_isError(left)) return tl::unexpected(std::string(ZSTD_getErrorName(left)));
      if (Result r = to_->write({out_.data(), out.pos}); !r) return r;
      if (mode == ZSTD_e_continue ? in.pos == in.size : left == 0) return {};
    }
  }
  std::unique_ptr<Sink> to_;
  std::vector<std::uint8_t> out_;
  ZSTD_CStream* state_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_sink(int descriptor, bool owned, Compression compression, int level) {
  auto plain = std::make_unique<DescriptorSink>(descriptor, owned);
  switch (compression) {
    case Compression::gzip: return std::make_unique<GzipSink>(std::move(plain), level);
    case Compression::zstd: return std::make_unique<ZstdSink>(std::move(plain), level);
    case Compression::none: break;
  }
  return plain;
}

}  // namespace rdmawire::captures
