#pragma once
/// Objects that Python creates at a device: protection domains with queue pairs and memory, and completion queues.

#include <pybind11/pybind11.h>

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/bench.hpp"
#include "conformance/cases/iwarp/bench.hpp"
#include "pysdk/src/devices.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {

/// Raises DeviceError for an error of the agent, or with the reason why the device was lost.
[[noreturn]] void fail(const SharedDevice& device, const peer::PeerError& error);
/// Raises DeviceError for the end of a bench, or with the reason why the device was lost.
[[noreturn]] void fail(const SharedDevice& device, const conformance::CaseEnd& end);

template <class T>
T take(const SharedDevice& device, peer::PeerResult<T> result) {
  if (!result) fail(device, result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Completions polled from a queue. Completions of internal requests are separated from those of the user.
class Completions {
 public:
  using Poll = std::function<peer::PeerResult<std::vector<peer::Completion>>(std::size_t, std::chrono::milliseconds)>;
  /// Returns up to `most` completions, stored ones first. `poll` polls the queue.
  peer::PeerResult<std::vector<peer::Completion>> take(std::size_t most, std::chrono::milliseconds wait,
                                                       const Poll& poll);
  /// Returns the completion of an internal request, or nullopt after the time `most`. own() returned `wr_id`.
  peer::PeerResult<std::optional<peer::Completion>> wait_for(std::uint64_t wr_id, std::chrono::milliseconds most,
                                                             bool virtual_time, const Poll& poll);
  /// Returns a wr_id for an internal request.
  std::uint64_t own();

 private:
  /// Stores completions of internal requests. Returns the others.
  std::vector<peer::Completion> sort(std::vector<peer::Completion> polled);
  std::mutex mutex_;
  std::uint64_t owns_ = 0;
  std::vector<std::uint64_t> awaited_;
  std::vector<peer::Completion> arrived_;  ///< of internal requests
  std::deque<peer::Completion> kept_;      ///< for the user
};

/// A completion queue of several queue pairs, with its polled completions.
struct SharedCompletions {
  peer::CompletionQueue queue;
  Completions completions{};
};

/// A completion queue for several queue pairs. It exists at the device while queue pairs use it, even after close().
class CompletionQueuePart final : public DevicePart {
 public:
  CompletionQueuePart(std::shared_ptr<SharedDevice> of, std::uint32_t entries);
  /// Returns the queue, which exists while the pointer is held. Raises ClosedError after close().
  [[nodiscard]] std::shared_ptr<SharedCompletions> use() const;
  [[nodiscard]] bool closed() const;
  void close() override;

  const std::shared_ptr<SharedDevice> device;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<SharedCompletions> cq_;
};

/// A queue pair of a domain with its resources. The address is stable while the domain is open.
struct Pair {
  conformance::DeviceQueuePair* verbs = nullptr;
  conformance::Connected* roce = nullptr;           ///< null for iWARP
  conformance::iwarp::Connected* stream = nullptr;  ///< null for RoCE
  std::shared_ptr<SharedCompletions> cq{};          ///< null: the queue pair's own queue
  std::shared_ptr<Completions> own_completions = std::make_shared<Completions>();
  std::list<peer::Region> regions{};  ///< additional memory
  std::list<conformance::BoundWindow> windows{};
  peer::AddressHandle tester{};  ///< only UD
  bool closed = false;

  [[nodiscard]] const peer::CompletionQueue& queue() const { return cq ? cq->queue : verbs->cq; }
  [[nodiscard]] Completions& completions() const { return cq ? cq->completions : *own_completions; }
  /// Releases all resources at the device.
  void close();
};

/// A protection domain and its objects: a bench of the device's transport family.
class Domain final : public DevicePart {
 public:
  /// Objects of an open domain.
  struct Made {
    Made(std::shared_ptr<conformance::Target> of, std::uint64_t seed);
    [[nodiscard]] conformance::DeviceBench& bench() {
      return roce ? static_cast<conformance::DeviceBench&>(*roce) : *iwarp;
    }
    std::shared_ptr<conformance::Target> target;
    std::optional<conformance::Bench> roce;               ///< nullopt for iWARP
    std::optional<conformance::iwarp::IwarpBench> iwarp;  ///< nullopt for RoCE
    std::list<peer::Region> regions;
    std::list<Pair> pairs;  // destroyed first, because windows must be destroyed before their regions
  };
  /// Thrown by work on a closed object.
  struct Closed {
    const char* what;
  };

  Domain(std::shared_ptr<SharedDevice> of, std::uint64_t seed);
  ~Domain() override;

  /// Runs `work` on the domain's objects without the interpreter's lock. Raises ClosedError with the text `closed` if
  /// the domain is closed, and DeviceError if a step fails.
  template <class Work>
  auto with(const Work& work, const char* closed = "the protection domain was closed") {
    using Result = decltype(work(std::declval<Made&>()));
    if (device->owned_by_parent_process()) static_cast<void>(device->use());  // raises
    std::optional<Result> result;
    try {
      const py::gil_scoped_release released;
      const std::lock_guard lock(mutex());
      const EventNotifier notifier(*this);
      if (made_) result.emplace(work(*made_));
    } catch (const conformance::CaseEnd& end) {
      fail(*device, end);
    } catch (const Closed& which) {
      closed = which.what;
    }
    if (!result) {
      if (device->closed()) static_cast<void>(device->use());  // raises
      python::raise(ErrorClass::closed, closed);
    }
    return std::move(*result);
  }
  /// Like with(), for work that returns a PeerResult.
  template <class Work>
  auto request(const Work& work) {
    return take(*device, with(work));
  }
  void close() override;
  [[nodiscard]] bool closed();
  /// Runs `work` unless the domain is closed. Call without the interpreter's lock.
  void if_open(const std::function<void(Made&)>& work);

  const std::shared_ptr<SharedDevice> device;

 private:
  /// Forwards the recorded frames of a bench to the device on destruction, because a bench of Python runs no case whose
  /// end would do it.
  class EventNotifier {
   public:
    explicit EventNotifier(Domain& of) : of_(of) {}
    ~EventNotifier() { of_.forward_frames(); }
    EventNotifier(const EventNotifier&) = delete;
    EventNotifier& operator=(const EventNotifier&) = delete;

   private:
    Domain& of_;
  };
  void forward_frames();
  /// Streams of one device share a host that only one thread may use at a time.
  [[nodiscard]] std::mutex& mutex() { return streams_ ? device->streams() : mutex_; }

  const bool streams_;
  std::mutex mutex_;
  std::unique_ptr<Made> made_;
};

inline constexpr const char* was_closed = "the queue pair was closed";

/// A queue pair for Python. The domain closes it. If `owns` is set, it closes the domain.
class QueuePairPart {
 public:
  QueuePairPart(std::shared_ptr<Domain> in, bool owns) : domain(std::move(in)), owns_(owns) {}
  ~QueuePairPart();
  QueuePairPart(const QueuePairPart&) = delete;
  QueuePairPart& operator=(const QueuePairPart&) = delete;

  /// Runs Domain::with() with the queue pair.
  template <class Work>
  auto with_pair(const Work& work) {
    return domain->with(
        [&](Domain::Made& made) {
          if (!pair || pair->closed) throw Domain::Closed{was_closed};
          return work(*pair, made);
        },
        was_closed);
  }
  template <class Work>
  auto request_pair(const Work& work) {
    return take(*domain->device, with_pair(work));
  }
  /// Call without the interpreter's lock.
  void close();
  [[nodiscard]] bool closed();

  const std::shared_ptr<Domain> domain;
  Pair* pair = nullptr;

 private:
  bool owns_;
};

/// A RoCE queue pair.
class QueuePair final : public QueuePairPart {
 public:
  QueuePair(std::shared_ptr<Domain> in, bool owns, conformance::ConnectOptions options,
            const std::shared_ptr<CompletionQueuePart>& cq);
  template <class Work>
  auto with(const Work& work) {
    return with_pair([&](Pair& its, Domain::Made& made) { return work(*its.roce, *made.roce); });
  }
  template <class Work>
  auto request(const Work& work) {
    return take(*domain->device, with(work));
  }
};

/// An iWARP queue pair and the tester's endpoint of its stream.
class StreamPair final : public QueuePairPart {
 public:
  /// `connected`: establish the stream. Otherwise the caller establishes it.
  StreamPair(std::shared_ptr<Domain> in, bool owns, conformance::iwarp::ConnectOptions options, bool connected,
             const std::shared_ptr<CompletionQueuePart>& cq);
  template <class Work>
  auto with(const Work& work) const {
    return const_cast<StreamPair*>(this)->with_pair([&](Pair& its, Domain::Made& made) {
      // Discard received data of long streams.
      if (its.stream->connected()) its.stream->forget();
      return work(*its.stream, *made.iwarp);
    });
  }
};

/// Memory of the device that belongs to a domain or a queue pair.
struct Region {
  std::shared_ptr<Domain> domain;
  std::shared_ptr<QueuePairPart> of;  ///< keeps the queue pair alive (nullptr: memory of a domain)
  /// Throws Domain::Closed if the memory was released.
  std::function<peer::Region&()> find;

  template <class Work>
  auto get(const Work& work) const {
    return domain->with([&](Domain::Made&) { return work(find()); },
                        of ? was_closed : "its protection domain was closed");
  }
  template <class Work>
  auto request(const Work& work) const {
    return take(*domain->device, get(work));
  }
};

/// Access rights have the names of the agent's protocol.
void bind_device_parts(py::module_& module);
/// Binds the common part of queue pairs of both transport families.
void bind_queue_pair_parts(py::module_& module);

/// Converts seconds to milliseconds. None: no timeout. Raises UsageError for invalid values.
std::chrono::milliseconds milliseconds_of(const py::object& seconds);
py::dict dict_of(const peer::Completion& completion);

}  // namespace rdmawire::python
