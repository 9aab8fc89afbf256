#include "captures/io/window.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "captures/io/interrupt.hpp"

namespace rdmawire::captures {

namespace {

class MemoryWindow final : public Window {
 public:
  explicit MemoryWindow(Bytes memory) : memory_(memory) {}
  void fill(const std::uint8_t*& at, const std::uint8_t*& limit, std::size_t) override {
    if (at == nullptr) {
      at = memory_.data();
      limit = at + memory_.size();
    }
  }

 private:
  Bytes memory_;
};

class StreamWindow final : public Window {
 public:
  explicit StreamWindow(std::unique_ptr<Stream> stream)
      : stream_(std::move(stream)), size_(first_size), buffer_(new std::uint8_t[size_]) {}

  void fill(const std::uint8_t*& at, const std::uint8_t*& limit, std::size_t need) override {
    std::size_t have = static_cast<std::size_t>(limit - at);
    if (have > 0) std::memmove(buffer_.get(), at, have);
    while (have < need) {
      // The buffer grows with the bytes that arrive, not with the length that a record contains.
      if (have == size_) {
        std::unique_ptr<std::uint8_t[]> larger(new std::uint8_t[size_ * 2]);
        std::memcpy(larger.get(), buffer_.get(), have);
        buffer_ = std::move(larger);
        size_ *= 2;
      }
      const std::size_t count = stream_->read(buffer_.get() + have, size_ - have);
      if (count == 0) break;
      have += count;
    }
    at = buffer_.get();
    limit = at + have;
  }
  [[nodiscard]] std::optional<Stream::ReadError> error() const override { return stream_->error(); }
  void drain(std::uint64_t most) override {
    while (most > 0) {
      const std::size_t count = stream_->read(buffer_.get(), std::min<std::uint64_t>(size_, most));
      if (count == 0) return;
      most -= count;
    }
  }
  [[nodiscard]] bool stable() const override { return false; }

 private:
  static constexpr std::size_t first_size = 128 * 1024;
  std::unique_ptr<Stream> stream_;
  std::size_t size_;
  std::unique_ptr<std::uint8_t[]> buffer_;
};

/// Address ranges of mapped captures. They are lock-free atomics, because the signal handler reads them.
struct Guarded {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> taken{false};
};
std::array<Guarded, 64> guarded;
struct sigaction previous_action;
std::uintptr_t page_size;

void on_bus_error(int number, siginfo_t* details, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(details->si_addr);
  for (const Guarded& range : guarded) {
    if (address < range.begin.load() || address >= range.end.load()) continue;
    const int saved = errno;
    void* const page = reinterpret_cast<void*>(address & ~(page_size - 1));
    const bool replaced =
        ::mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    errno = saved;
    if (replaced) return;
  }
  if (previous_action.sa_flags & SA_SIGINFO) {
    previous_action.sa_sigaction(number, details, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  } else {
    ::signal(number, SIG_DFL);  // after the handler returns, the access is repeated and ends the process
  }
}

/// Reserves an entry of the address ranges. Returns nullptr if all are in use.
Guarded* guard(std::uintptr_t begin, std::uint64_t size) {
  static std::once_flag once;
  std::call_once(once, [] {
    page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous_action);
  });
  for (Guarded& range : guarded) {
    if (range.taken.exchange(true)) continue;
    range.begin = begin;
    range.end = begin + size;
    return &range;
  }
  return nullptr;
}

class MappedWindow final : public Window {
 public:
  MappedWindow(int descriptor, std::uint8_t* base, std::size_t size, Guarded* range)
      : descriptor_(descriptor), base_(base), size_(size), range_(range) {}
  ~MappedWindow() override {
    range_->end = 0;
    range_->begin = 0;
    range_->taken = false;
    ::munmap(base_, size_);
    ::close(descriptor_);
  }

  void fill(const std::uint8_t*& at, const std::uint8_t*& limit, std::size_t need) override {
    const std::size_t position = at == nullptr ? 0 : static_cast<std::size_t>(at - base_);
    if (interrupted_ || !InterruptScope::keep_reading()) {
      interrupted_ = true;
      at = limit = base_ + position;
      return;
    }
    // Threads may still use the bytes of the last steps. If their pages were released, they would have to be loaded
    // again.
    const std::size_t behind = (position - std::min(position, kept)) / released_at_once * released_at_once;
    if (behind > released_) {
      ::madvise(base_ + released_, behind - released_, MADV_DONTNEED);
      released_ = behind;
    }
    const std::size_t seen = std::min(size_, std::max(position + need, position + stretch));
    at = base_ + position;
    limit = base_ + seen;
  }
  [[nodiscard]] std::optional<Stream::ReadError> error() const override {
    if (interrupted_) return Stream::ReadError{CaptureError::Kind::unreadable, "interrupted"};
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || static_cast<std::uint64_t>(status.st_size) >= size_) return std::nullopt;
    return Stream::ReadError{CaptureError::Kind::changed, "the file was truncated from " + std::to_string(size_) +
                                                              " to " + std::to_string(status.st_size) +
                                                              " bytes while it was read"};
  }

  [[nodiscard]] bool grown() const override {
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) > size_;
  }

 private:
  static constexpr std::size_t stretch = 128 * 1024;  // visible window, and interval of checks for releasing pages
  static constexpr std::size_t released_at_once = 8 * 1024 * 1024;
  static constexpr std::size_t kept = 4 * 1024 * 1024;
  int descriptor_;
  std::uint8_t* base_;
  std::size_t size_;
  Guarded* range_;
  std::size_t released_ = 0;
  bool interrupted_ = false;
};

}  // namespace

std::unique_ptr<Window> memory_window(Bytes memory) { return std::make_unique<MemoryWindow>(memory); }
std::unique_ptr<Window> stream_window(std::unique_ptr<Stream> stream) {
  return std::make_unique<StreamWindow>(std::move(stream));
}

std::unique_ptr<Window> mapped_window(int descriptor, std::uint64_t size) {
  if (size == 0 || size > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  const auto length = static_cast<std::size_t>(size);
  void* const base = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (base == MAP_FAILED) return nullptr;
  Guarded* const range = guard(reinterpret_cast<std::uintptr_t>(base), size);
  if (range == nullptr) {
    ::munmap(base, length);
    return nullptr;
  }
  ::madvise(base, length, MADV_SEQUENTIAL);
  return std::make_unique<MappedWindow>(descriptor, static_cast<std::uint8_t*>(base), length, range);
}

}  // namespace rdmawire::captures
