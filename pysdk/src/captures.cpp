#include "pysdk/src/captures.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "dissectors/output/json.hpp"
#include "dissectors/output/printable.hpp"
#include "dissectors/protocol/user_headers.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/columns_packets.hpp"
#include "pysdk/src/columns_python.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {
namespace {

bool is_regular(const std::string& path) {
  struct stat status {};
  return path != "-" && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// All captures of this process that are files. Exists until the process ends.
struct OpenFiles {
  std::mutex mutex;
  std::set<const CaptureSource*> sources;
};
OpenFiles& open_captures() {
  static auto* const open = new OpenFiles;
  return *open;
}

/// Keeps the bytes of a Python object valid until the last reader releases them.
std::shared_ptr<void> hold(const py::object& object, Bytes& raw) {
  auto* const held = new BytesView(object);
  raw = held->bytes();
  return {held, [](BytesView* gone) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire lock;
            delete gone;
          }};
}

/// Packets as rows.
class PacketRows final : public Rows {
 public:
  PacketRows(std::shared_ptr<CaptureSource> source, captures::Reader reader,
             std::shared_ptr<const PacketColumns> columns, const ReadOptions& options)
      : source_(std::move(source)),
        columns_(std::move(columns)),
        filter_(options.filter),
        reader_(std::move(reader)),
        dissector_(options.dissector) {}

  tl::expected<void, std::string> read(Batch& batch, std::size_t most, std::size_t raw) override {
    const std::size_t begin = batch.rows(), memory = batch.memory();
    std::optional<captures::InterruptScope> scope;
    if (keep_going)
      scope.emplace([this] {
        const bool goes_on = !source_->closed() && keep_going();
        if (!goes_on) over_ = true;
        return goes_on;
      });
    for (std::size_t examined = 1; !over_ && batch.rows() - begin < most; ++examined) {
      if (examined % 1024 == 1) {
        if (source_->closed()) return stop(source_->closed_sentence());
        if (batch.memory() - memory > raw) break;
        if (examined % 65536 == 1 && keep_going && !keep_going()) over_ = true;
      }
      const captures::Next next = reader_.next(record_);
      if (next == captures::Next::end) over_ = true;
      if (next == captures::Next::error) {
        if (source_->closed()) return stop(source_->closed_sentence());
        // Report the error after all rows before it.
        if (batch.rows() != begin) break;
        return stop(captures::to_string(reader_.error()));
      }
      if (next != captures::Next::record) break;
      packet_.number = record_.number;
      packet_.time_ns = record_.time;
      packet_.link = record_.link;
      dissector_.dissect(packet_, record_.bytes, record_.wire_length);
      decode_user_headers(packet_.stack);
      if (!filter_ || filter_->matches(packet_)) columns_->add(batch, packet_);
    }
    return {};
  }

 private:
  tl::unexpected<std::string> stop(std::string why) {
    over_ = true;
    return tl::unexpected(std::move(why));
  }

  std::shared_ptr<CaptureSource> source_;
  std::shared_ptr<const PacketColumns> columns_;
  std::shared_ptr<const output::Filter> filter_;
  captures::Reader reader_;
  captures::Record record_;
  tracking::Dissector dissector_;
  tracking::Packet packet_;
  bool over_ = false;
};

class PacketTable final : public TableSource {
 public:
  PacketTable(std::shared_ptr<CaptureSource> source, PacketColumns columns, ReadOptions options)
      : source_(std::move(source)),
        columns_(std::make_shared<PacketColumns>(std::move(columns))),
        options_(std::move(options)) {}

  [[nodiscard]] const std::vector<ColumnInfo>& columns() const override { return columns_->infos(); }
  tl::expected<std::unique_ptr<Rows>, std::string> begin() override {
    auto reader = source_->begin();
    if (!reader) return tl::unexpected(reader.error());
    return std::make_unique<PacketRows>(source_, std::move(*reader), columns_, options_);
  }

 private:
  std::shared_ptr<CaptureSource> source_;
  std::shared_ptr<const PacketColumns> columns_;
  ReadOptions options_;
};

}  // namespace

std::shared_ptr<CaptureSource> CaptureSource::open(const std::string& path, const py::object& raw) {
  std::shared_ptr<CaptureSource> source;
  if (raw.is_none()) {
    source = std::make_shared<CaptureSource>(path, nullptr, Bytes{});
  } else {
    Bytes bytes;
    auto memory = hold(raw, bytes);
    source = std::make_shared<CaptureSource>(path, std::move(memory), bytes);
  }
  // Report invalid captures when they are opened.
  tl::expected<captures::Reader, std::string> reader = tl::unexpected(std::string());
  bool interrupted = false;
  {
    const py::gil_scoped_release unlocked;
    const ReadingScope scope(*source);
    reader = source->begin();
    interrupted = scope.interrupted();
  }
  if (interrupted) throw py::error_already_set();
  if (!reader) raise(ErrorClass::capture, reader.error());
  if (!source->rereadable_) {
    source->first_ = std::move(*reader);
    source->opened_ = false;
  }
  return source;
}

CaptureSource::CaptureSource(std::string path, std::shared_ptr<void> memory, Bytes raw)
    : path_(std::move(path)), memory_(std::move(memory)), bytes_(raw), rereadable_(memory_ || is_regular(path_)) {
  name_ = path_ == "-" ? "standard input" : output::printable(path_);
  if (memory_ || !rereadable_) return;
  std::error_code error;  // the working directory may change
  absolute_path_ = std::filesystem::absolute(path_, error).string();
  OpenFiles& open = open_captures();
  const std::scoped_lock lock(open.mutex);
  open.sources.insert(this);
}

CaptureSource::~CaptureSource() {
  OpenFiles& open = open_captures();
  const std::scoped_lock lock(open.mutex);
  open.sources.erase(this);
}

std::vector<std::string> CaptureSource::open_files() {
  std::vector<std::string> paths;
  OpenFiles& open = open_captures();
  const std::scoped_lock lock(open.mutex);
  for (const CaptureSource* const source : open.sources)
    if (!source->closed()) paths.push_back(source->absolute_path_);
  return paths;
}

tl::expected<captures::Reader, std::string> CaptureSource::begin() {
  if (closed_) return tl::unexpected(closed_sentence());
  if (!rereadable_) {
    const std::scoped_lock lock(mutex_);
    if (first_) {
      captures::Reader reader = std::move(*first_);
      first_.reset();
      opened_ = true;
      return reader;
    }
    if (opened_) return tl::unexpected(name_ + " is a stream and was read already; save it to a file first");
    opened_ = true;
  }
  auto reader = memory_ ? captures::Reader::from_memory(bytes_, name_) : captures::Reader::open(path_);
  if (!reader) return tl::unexpected(captures::to_string(reader.error()));
  return std::move(*reader);
}

ReadingScope::ReadingScope(const CaptureSource& source)
    : scope_([this, &source] {
        if (source.closed()) return false;
        interrupted_ = !signals_are_quiet();
        return !interrupted_;
      }) {}

std::string filter_error(const output::FilterError& error, const std::string& expression) {
  std::string text = "filter:\n" + output::to_string(error, expression);
  // Words that start a libpcap expression, followed by another word. No header or field has these names.
  static const std::regex of_libpcap(
      R"(^\s*(((udp|tcp|ip|ip6|ether|src|dst)\s+)*(host|port|portrange|net|proto)|less|greater)\s+[\w.:]+)");
  // std::regex recurses for each character, so only the first characters are matched.
  constexpr std::size_t most = 200;
  if (std::regex_search(expression.substr(0, most), of_libpcap))
    text += "\nThis is a filter of libpcap, which only open_live() accepts. Use, for example, udp.dst_port == 4791";
  return text;
}

std::shared_ptr<const output::Filter> compile_filter(const std::string& expression) {
  if (expression.empty()) return nullptr;
  auto filter = output::Filter::compile(expression);
  if (!filter) raise(ErrorClass::usage, filter_error(filter.error(), expression));
  return std::make_shared<const output::Filter>(std::move(*filter));
}

std::shared_ptr<TableSource> packet_table(std::shared_ptr<CaptureSource> source, const std::vector<std::string>& names,
                                          const ReadOptions& options) {
  auto columns = PacketColumns::of(names);
  if (!columns) raise(ErrorClass::usage, columns.error());
  ReadOptions own = options;
  own.dissector.verify_crcs = columns->uses_crcs() || (own.filter && own.filter->uses_crcs());
  return std::make_shared<PacketTable>(std::move(source), std::move(*columns), own);
}

}  // namespace rdmawire::python
