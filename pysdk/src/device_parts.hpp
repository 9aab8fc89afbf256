#pragma once
/// What Python makes at a device: protection domains with their queue pairs and memory, and completion queues.

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

/// Raises for an error of the agent's: by what became of the device, where that is why.
[[noreturn]] void fail(const SharedDevice& device, const peer::PeerError& error);
/// The same for what a bench ended with.
[[noreturn]] void fail(const SharedDevice& device, const conformance::CaseEnd& end);

template <class T>
T take(const SharedDevice& device, peer::PeerResult<T> result) {
  if (!result) fail(device, result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Completions of a queue as they are polled. Where the package waits for one of its own, those of others that come
/// meanwhile are kept for who polls, and who polls does not get it.
class Completions {
 public:
  using Poll = std::function<peer::PeerResult<std::vector<peer::Completion>>(std::size_t, std::chrono::milliseconds)>;
  /// Up to `most`, those that were kept first. `poll` asks the queue.
  peer::PeerResult<std::vector<peer::Completion>> take(std::size_t most, std::chrono::milliseconds wait,
                                                       const Poll& poll);
  /// The completion of the package's own request; nothing when it does not come for so long. wr_ids are from own().
  peer::PeerResult<std::optional<peer::Completion>> wait_for(std::uint64_t wr_id, std::chrono::milliseconds most,
                                                             bool virtual_time, const Poll& poll);
  /// A wr_id for a request of the package's own, which is awaited from now on.
  std::uint64_t own();

 private:
  /// Sorts what was polled into what is awaited and the rest, which is given back.
  std::vector<peer::Completion> sort(std::vector<peer::Completion> polled);
  std::mutex mutex_;
  std::uint64_t owns_ = 0;
  std::vector<std::uint64_t> awaited_;
  std::vector<peer::Completion> arrived_;  ///< that are awaited
  std::deque<peer::Completion> kept_;      ///< for who polls
};

/// A completion queue that several queue pairs can have, with what was polled of it.
struct SharedCompletions {
  peer::CompletionQueue queue;
  Completions completions{};
};

/// A completion queue that several queue pairs can have. What uses it keeps it at the device, closed or not.
class CompletionQueuePart final : public DevicePart {
 public:
  CompletionQueuePart(std::shared_ptr<SharedDevice> of, std::uint32_t entries);
  /// As long as it is held; raises ClosedError when it is closed.
  [[nodiscard]] std::shared_ptr<SharedCompletions> use() const;
  [[nodiscard]] bool closed() const;
  void close() override;

  const std::shared_ptr<SharedDevice> device;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<SharedCompletions> cq_;
};

/// One queue pair of a domain, with what was made for it. Stands where it is as long as the domain is open.
struct Pair {
  conformance::DeviceQueuePair* verbs = nullptr;
  conformance::Connected* roce = nullptr;           ///< one of the two
  conformance::iwarp::Connected* stream = nullptr;  ///< one of the two
  std::shared_ptr<SharedCompletions> cq{};          ///< in place of its own
  std::shared_ptr<Completions> own_completions = std::make_shared<Completions>();
  std::list<peer::Region> regions{};  ///< beside its own
  std::list<conformance::BoundWindow> windows{};
  peer::AddressHandle tester{};  ///< of UD
  bool closed = false;

  [[nodiscard]] const peer::CompletionQueue& queue() const { return cq ? cq->queue : verbs->cq; }
  [[nodiscard]] Completions& completions() const { return cq ? cq->completions : *own_completions; }
  /// Lets go of everything at the device.
  void close();
};

/// A protection domain, and what was made in it: a bench of the device's family.
class Domain final : public DevicePart {
 public:
  /// What it has while it is open.
  struct Made {
    Made(std::shared_ptr<conformance::Target> of, std::uint64_t seed);
    [[nodiscard]] conformance::DeviceBench& bench() {
      return roce ? static_cast<conformance::DeviceBench&>(*roce) : *iwarp;
    }
    std::shared_ptr<conformance::Target> target;
    std::optional<conformance::Bench> roce;               ///< one of the two
    std::optional<conformance::iwarp::IwarpBench> iwarp;  ///< one of the two
    std::list<peer::Region> regions;
    std::list<Pair> pairs;  // goes first: windows before what they are bound to
  };
  /// Thrown by work: what it is about was closed before.
  struct Closed {
    const char* what;
  };

  Domain(std::shared_ptr<SharedDevice> of, std::uint64_t seed);
  ~Domain() override;

  /// Does it with what was made, without the interpreter's lock; raises where it is closed, in the words of `closed`,
  /// or a step of it fails.
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
  /// The same of what the agent answers.
  template <class Work>
  auto request(const Work& work) {
    return take(*device, with(work));
  }
  void close() override;
  [[nodiscard]] bool closed();
  /// Does it unless the domain is closed. Not with the interpreter's lock.
  void if_open(const std::function<void(Made&)>& work);

  const std::shared_ptr<SharedDevice> device;

 private:
  /// Hands what a bench wrote down to the device when it goes: a bench of Python's has no end.
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
  /// Streams of one device share a host, which one thread uses at a time.
  [[nodiscard]] std::mutex& mutex() { return streams_ ? device->streams() : mutex_; }

  const bool streams_;
  std::mutex mutex_;
  std::unique_ptr<Made> made_;
};

inline constexpr const char* was_closed = "the queue pair was closed";

/// A queue pair for Python. It ends with its domain; where it has one of its own, that ends with it.
class QueuePairPart {
 public:
  QueuePairPart(std::shared_ptr<Domain> in, bool owns) : domain(std::move(in)), owns_(owns) {}
  ~QueuePairPart();
  QueuePairPart(const QueuePairPart&) = delete;
  QueuePairPart& operator=(const QueuePairPart&) = delete;

  /// Domain::with() of it.
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
  /// Not with the interpreter's lock.
  void close();
  [[nodiscard]] bool closed();

  const std::shared_ptr<Domain> domain;
  Pair* pair = nullptr;

 private:
  bool owns_;
};

/// One of RoCE.
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

/// One of iWARP, and the tester's end of its stream, once it has one.
class StreamPair final : public QueuePairPart {
 public:
  /// `connected`: its stream is set up; else that is left to who asks.
  StreamPair(std::shared_ptr<Domain> in, bool owns, conformance::iwarp::ConnectOptions options, bool connected,
             const std::shared_ptr<CompletionQueuePart>& cq);
  template <class Work>
  auto with(const Work& work) const {
    return const_cast<StreamPair*>(this)->with_pair([&](Pair& its, Domain::Made& made) {
      // What of a long stream was read is not kept.
      if (its.stream->connected()) its.stream->forget();
      return work(*its.stream, *made.iwarp);
    });
  }
};

/// Memory of the device, of a domain or of one of its queue pairs.
struct Region {
  std::shared_ptr<Domain> domain;
  std::shared_ptr<QueuePairPart> of;  ///< which does not go as long as its memory is held; of a domain nullptr
  /// Throws Domain::Closed where it is gone.
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

/// The access rights' names are the agent's.
void bind_device_parts(py::module_& module);
/// What queue pairs of both families have, for their classes.
void bind_queue_pair_parts(py::module_& module);

/// Seconds to milliseconds; None is no end. Raises for what is no time.
std::chrono::milliseconds milliseconds_of(const py::object& seconds);
py::dict dict_of(const peer::Completion& completion);

}  // namespace rdmawire::python
