#include "captures/analysis/parallel_scan.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <type_traits>

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#define RDMAWIRE_STREAMING_STORES
#endif

namespace rdmawire::captures::analysis {
namespace {

/// Stores a value that another thread reads next. The cache lines of `to` are in the cache of the thread that read the
/// previous value. Stores that bypass the caches need not wait for these lines.
template <class T>
void store_for_others(T& to, const T& value) {
#ifdef RDMAWIRE_STREAMING_STORES
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 64 == 0 && alignof(T) == 64);
  const auto* from = reinterpret_cast<const __m128i*>(&value);
  auto* at = reinterpret_cast<__m128i*>(&to);
  for (std::size_t i = 0; i < sizeof(T) / sizeof(__m128i); ++i) _mm_stream_si128(at + i, _mm_load_si128(from + i));
#else
  to = value;
#endif
}

/// Makes the stored values visible before later stores.
void finish_stores() {
#ifdef RDMAWIRE_STREAMING_STORES
  _mm_sfence();
#endif
}

}  // namespace

ParallelScan::ParallelScan(Setup setup)
    : setup_(std::move(setup)), sharder_(setup_.shards), first_left_(setup_.first ? setup_.first_bytes : 0) {}

ParallelScan::~ParallelScan() {
  {
    const std::lock_guard lock(guard_);
    ends_ = true;
  }
  change_.notify_all();
}

std::size_t ParallelScan::add_lane(Lane& lane, unsigned thread, std::optional<std::size_t> after) {
  lanes_.push_back({&lane, thread % std::max(setup_.threads, 1U), after});
  return lanes_.size() - 1;
}

void ParallelScan::start() {
  started_ = true;
  threads_.reserve(setup_.threads);
  try {
    for (unsigned thread = 1; thread < setup_.threads; ++thread)
      threads_.emplace_back([this, thread] { help(thread); });
  } catch (const std::system_error&) {
    // Continue with the threads that were started. Each thread also works on lanes of other threads.
  }
}

void ParallelScan::add(const Record& record, std::uint64_t frame, bool stays) {
  if (first_left_ != 0) {
    setup_.first->add(record, frame, stays);
    first_left_ -= std::min<std::uint64_t>(first_left_, record.bytes.size());
    if (first_left_ == 0) setup_.first->drain();
    return;
  }
  if (!started_) start();
  if (stays) {
    append(record, frame, record.bytes);
  } else if (record.bytes.size() > FrameBatch::most_copied) {
    // The record is alone in its batch, so its bytes need not be copied.
    drain();
    append(record, frame, record.bytes);
    drain();
  } else {
    if (filling_ && filling_->copied.size() + record.bytes.size() > FrameBatch::most_copied) submit();
    if (!filling_) wait_for_slot();
    // The vector is not reallocated, so the bytes of earlier frames keep their addresses.
    std::vector<std::uint8_t>& copied = filling_->copied;
    copied.reserve(FrameBatch::most_copied);
    const std::size_t at = copied.size();
    copied.insert(copied.end(), record.bytes.begin(), record.bytes.end());
    append(record, frame, Bytes(copied.data() + at, record.bytes.size()));
  }
}

void ParallelScan::append(const Record& record, std::uint64_t frame, Bytes bytes) {
  if (!filling_) wait_for_slot();
  BatchFrame added;
  added.bytes = bytes;
  added.number = frame;
  added.time = record.time;
  added.wire_length = record.wire_length;
  added.link = record.link;
  if (setup_.shards > 1) {
    const Peek seen = peek(bytes, record.link, record.wire_length, setup_.dissector.decode.extra_roce_v2_port);
    added.shard = static_cast<std::uint16_t>(sharder_.next(seen, bytes, record.link));
  }
  store_for_others(filling_->frames[filling_->count++], added);
  if (filling_->count == FrameBatch::capacity) submit();
}

void ParallelScan::wait_for_slot() {
  Lock lock(guard_);
  while (submitted_ - finished() >= depth)
    if (!work(0, lock, packet_)) {
      ++waiting_;
      change_.wait(lock);
      --waiting_;
    }
  check();
  Slot& slot = slots_[submitted_ % depth];
  if (!slot.batch) slot.batch = std::make_unique<FrameBatch>();
  slot.decoded = false;
  slot.batch->count = 0;
  slot.batch->copied.clear();
  filling_ = slot.batch.get();
}

void ParallelScan::submit() {
  finish_stores();
  const std::lock_guard lock(guard_);
  filling_ = nullptr;
  ++submitted_;
  changed();
}

void ParallelScan::drain() {
  if (first_left_ != 0) return setup_.first->drain();
  if (filling_ && filling_->count != 0) submit();
  Lock lock(guard_);
  while (finished() != submitted_)
    if (!work(0, lock, packet_)) {
      ++waiting_;
      change_.wait(lock);
      --waiting_;
    }
  check();
}

void ParallelScan::check() const {
  if (failure_) std::rethrow_exception(failure_);
}

void ParallelScan::fail(const std::exception_ptr& thrown) {
  skips_ = true;
  if (!failure_) failure_ = thrown;
}

void ParallelScan::abandon() {
  Lock lock(guard_);
  skips_ = true;
  while (finished() != submitted_)
    if (!work(0, lock, packet_)) {
      ++waiting_;
      change_.wait(lock);
      --waiting_;
    }
}

void ParallelScan::out_of_memory() {
  abandon();
  if (setup_.out_of_memory) setup_.out_of_memory();
}

void ParallelScan::help(unsigned thread) {
  tracking::Packet packet;
  Lock lock(guard_);
  while (!ends_)
    if (!work(thread, lock, packet)) {
      ++waiting_;
      change_.wait(lock);
      --waiting_;
    }
}

std::uint64_t ParallelScan::finished() const {
  std::uint64_t least = submitted_;
  for (const LaneState& lane : lanes_) least = std::min(least, lane.next);
  return least;
}

bool ParallelScan::ready(const LaneState& lane) const {
  return !lane.busy && lane.next < submitted_ &&
         (lane.after ? lanes_[*lane.after].next > lane.next : slots_[lane.next % depth].decoded);
}

void ParallelScan::changed() {
  if (waiting_ != 0) change_.notify_all();
}

bool ParallelScan::work(unsigned thread, Lock& lock, tracking::Packet& packet) {
  for (LaneState& lane : lanes_)
    if (lane.thread == thread && ready(lane)) return work_on(lane, lock), true;
  if (claimed_ < submitted_) {
    const std::size_t at = claimed_++ % depth;
    Slot& slot = slots_[at];
    if (!skips_) {
      lock.unlock();
      std::exception_ptr thrown;
      try {
        decode(*slot.batch, at, packet);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown) fail(thrown);
    }
    slot.decoded = true;
    changed();
    return true;
  }
  // The tables of a lane are in the cache of its own thread, so other threads work on it only if they have nothing else
  // to do.
  for (LaneState& lane : lanes_)
    if (ready(lane)) return work_on(lane, lock), true;
  return false;
}

void ParallelScan::work_on(LaneState& lane, Lock& lock) {
  if (!skips_) {
    lane.busy = true;
    const std::size_t at = lane.next % depth;
    FrameBatch& batch = *slots_[at].batch;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      lane.lane->process(batch, at);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    lane.busy = false;
    if (thrown) fail(thrown);
  }
  ++lane.next;
  changed();
}

void ParallelScan::decode(FrameBatch& batch, std::size_t slot, tracking::Packet& packet) const {
  const tracking::DissectorOptions& options = setup_.dissector;
  constexpr std::uint32_t management_qps = 1;
  for (std::size_t i = 0; i < batch.count; ++i) {
    const BatchFrame& frame = batch.frames[i];
    frame.describe(packet);
    tracking::Dissector::read(packet, frame.bytes, frame.wire_length, options);
    const Peek seen = peek(frame.bytes, frame.link, frame.wire_length, options.decode.extra_roce_v2_port);
    DecodedFrame decoded;
    tracking::TransportPacket& t = decoded.transport;
    decoded.has_transport = tracking::read_transport_packet(packet, t);
    // If there is a tunnel, `seen` can contain the outer addresses, and `t` the inner ones.
    if (decoded.has_transport && seen.known && (t.from != seen.from || t.to != seen.to)) decoded.has_transport = false;
    if (decoded.has_transport) {
      if (setup_.payload_crcs) tracking::read_payload_crc(packet, t);
      const HeaderStack& stack = packet.stack;
      const std::uint64_t payload = payload_of(packet);
      decoded.payload = static_cast<std::uint32_t>(payload);
      decoded.plain = (stack.wire == Wire::roce_v1 || stack.wire == Wire::roce_v2) && t.op->known &&
                      t.op->transport != Transport::rd && t.dest_qp > management_qps && !t.crc_bad &&
                      payload <= UINT32_MAX && stack.network < stack.layers().size() && seen.known;
    } else {
      t.from = seen.from;
      t.to = seen.to;
    }
    decoded.arriving = static_cast<std::uint32_t>(seen.payload);
    decoded.icrc = packet.icrc;
    decoded.truncated = packet.stack.cut;
    decoded.known = seen.known;
    decoded.text = seen.text;
    if (setup_.decoded) decoded.checked = setup_.decoded(packet, slot);
    store_for_others(batch.decoded[i], decoded);
  }
  finish_stores();
}

}  // namespace rdmawire::captures::analysis
