#include "captures/analysis/vantage/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "captures/analysis/workers.hpp"
#include "captures/io/reader.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::captures::vantage {
namespace {

/// One capture in the second pass. Contains its next observation.
class Stream {
 public:
  Stream(Reader reader, const ReadOptions& options, IdentityBy by)
      : reader_(std::move(reader)), options_(options), by_(by) {
    if (options.filter) dissector_.emplace(tracking::DissectorOptions{options.decode, options.verify_crcs});
  }

  /// Moves to the next observation. Returns false at the end of the capture.
  bool advance() {
    Record record;
    while (reader_.next(record) == Next::record) {
      packet_.number = ++frame_;
      packet_.time_ns = record.time;
      packet_.link = record.link;
      if (dissector_) {
        dissector_->dissect(packet_, record.bytes, record.wire_length);
        if (!options_.filter->matches(packet_)) continue;
      } else {
        decode(packet_.stack, record.bytes, record.link, record.wire_length, options_.decode);
        packet_.icrc = options_.verify_crcs ? check_icrc(packet_.stack) : CrcCheck{};
      }
      if ((frame_ & 0xfff) == 0) {
        if (options_.stops()) break;
        if (options_.progress) options_.progress(frame_, reader_.position(), reader_.file_size(), reader_.name());
      }
      if (observe(sighting_, packet_, by_)) return true;
      unidentified_ += cut_before_icrc(packet_);
    }
    return false;
  }
  [[nodiscard]] const Observation& observation() const { return sighting_; }
  [[nodiscard]] std::uint64_t unidentified() const { return unidentified_; }

 private:
  Reader reader_;
  const ReadOptions& options_;
  IdentityBy by_;
  std::optional<tracking::Dissector> dissector_;
  tracking::Packet packet_;
  Observation sighting_;
  std::uint64_t frame_ = 0, unidentified_ = 0;
};

std::vector<Survey> survey_all(const RunOptions& options, IdentityBy by, std::vector<std::string>& errors) {
  const std::size_t n = options.files.size();
  std::vector<std::optional<Survey>> found(n);
  std::vector<std::string> error(n);
  std::mutex guard;
  std::size_t next = 0;
  ReadOptions read = options.read;
  if (read.progress)
    read.progress = [&](std::uint64_t packets, std::uint64_t done, std::uint64_t all, const std::string& name) {
      const std::lock_guard lock(guard);
      options.read.progress(packets, done, all, name);
    };
  const auto work = [&] {
    for (;;) {
      std::size_t mine = 0;
      {
        const std::lock_guard lock(guard);
        if (next == n) return;
        mine = next++;
      }
      found[mine] = survey(options.files[mine], read, by, options.samples, error[mine]);
    }
  };
  analysis::work_together(std::min<std::size_t>(options.threads, n), work);
  std::vector<Survey> surveys;
  errors.clear();
  for (std::size_t i = 0; i < n; ++i) {
    if (found[i]) {
      surveys.push_back(std::move(*found[i]));
      if (!surveys.back().error.empty()) errors.push_back(surveys.back().error);
    } else {
      errors.push_back(error[i]);
    }
  }
  return surveys;
}

/// Returns the index of the file whose path, or last component of the path, is `name`. Returns nullopt if none or
/// several match.
std::optional<std::size_t> file_of(const std::string& name, const std::vector<std::string>& files) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] == name) return i;
    if (!files[i].ends_with("/" + name)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

tl::expected<void, std::string> check_points(const std::vector<std::string>& files) {
  if (files.size() < 2) return tl::unexpected(std::string("at least two files are required"));
  if (files.size() > most_points) return tl::unexpected(fmt::format("at most {} files are supported", most_points));
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (*file == "-") return tl::unexpected(std::string("standard input is not supported: files are read twice"));
    if (std::find(files.begin(), file, *file) != file) return tl::unexpected(fmt::format("duplicate file: {}", *file));
  }
  return {};
}

tl::expected<std::vector<std::size_t>, std::string> order_of_points(const std::vector<std::string>& names,
                                                                    const std::vector<std::string>& files) {
  std::vector<std::size_t> order;
  for (const std::string& name : names) {
    const auto file = file_of(name, files);
    if (!file || std::find(order.begin(), order.end(), *file) != order.end())
      return tl::unexpected(fmt::format("{} {}", name, file ? "is listed twice" : "does not match exactly one file"));
    order.push_back(*file);
  }
  if (!order.empty() && order.size() != files.size())
    return tl::unexpected(fmt::format("must list every input file ({} of {} given)", order.size(), files.size()));
  return order;
}

Comparison run(const RunOptions& options) {
  Comparison result;
  result.layout_options = options.layout;
  result.matcher_options = options.matcher;
  result.surveys = survey_all(options, IdentityBy::icrc, result.errors);
  if (std::any_of(result.surveys.begin(), result.surveys.end(), [](const Survey& s) { return s.cut != 0; })) {
    result.identity = IdentityBy::headers;
    result.surveys = survey_all(options, IdentityBy::headers, result.errors);
  }
  result.layout = std::make_unique<Layout>(result.surveys, options.layout);
  const Layout& layout = *result.layout;
  result.ledger = std::make_unique<Ledger>(result.surveys, layout);
  Ledger& ledger = *result.ledger;
  Matcher matcher(ledger, layout, options.matcher);

  struct Head {
    std::size_t capture = 0;
    std::int64_t aligned = 0;
    std::unique_ptr<Stream> stream;
  };
  std::vector<Head> heads;
  for (std::size_t c = 0; c < result.surveys.size(); ++c) {
    if (!layout.connected()[c]) continue;
    auto reader = Reader::open(result.surveys[c].name);
    if (!reader) {
      result.errors.push_back(to_string(reader.error()));
      continue;
    }
    heads.push_back({c, 0, std::make_unique<Stream>(std::move(*reader), options.read, result.identity)});
  }
  const auto advance = [&](Head& head) {
    if (!head.stream->advance()) {
      result.unidentified += head.stream->unidentified();
      return false;
    }
    head.aligned = layout.aligned(head.capture, head.stream->observation().time);
    return true;
  };
  std::erase_if(heads, [&](Head& head) { return !advance(head); });
  while (!heads.empty()) {
    Head& head = *std::min_element(heads.begin(), heads.end(),
                                   [](const Head& a, const Head& b) { return a.aligned < b.aligned; });
    const Observation& s = head.stream->observation();
    if (const auto unit = ledger.unit(s.flow)) {
      Copy copy;
      copy.aligned = head.aligned;
      copy.frame = s.frame;
      copy.unit = *unit;
      copy.psn = s.psn;
      copy.acknowledged = s.acknowledged;
      copy.bytes = s.bytes;
      copy.source_port = s.source_port;
      copy.capture = static_cast<std::uint8_t>(head.capture);
      copy.icrc = s.icrc;
      copy.role = s.role;
      copy.wire = s.wire;
      copy.traffic_class = s.traffic_class;
      copy.ttl = s.ttl;
      copy.priority = s.priority;
      copy.syndrome = s.syndrome;
      copy.acknowledges = s.acknowledges;
      matcher.add(s.identity, copy);
    }
    if (!advance(head)) heads.erase(heads.begin() + (&head - heads.data()));
  }
  matcher.finish();
  ledger.finish();
  result.evaluated_early = matcher.evaluated_early();
  return result;
}

}  // namespace rdmawire::captures::vantage
