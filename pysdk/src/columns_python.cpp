#include "pysdk/src/columns_python.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>

#include "pysdk/src/arrow.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {
namespace {

/// Memory exported through the buffer protocol. NumPy uses it without a copy.
class Memory {
 public:
  explicit Memory(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}
  /// Copies 32-bit numbers.
  explicit Memory(const std::vector<std::int32_t>& numbers) : bytes_(numbers.size() * sizeof numbers[0]) {
    if (!numbers.empty()) std::memcpy(bytes_.data(), numbers.data(), bytes_.size());
  }
  py::buffer_info info() {
    return {bytes_.data(), 1, "B", 1, {static_cast<py::ssize_t>(bytes_.size())}, {py::ssize_t{1}}};
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Returns NumPy's name of the type. "text" and "bytes" become objects.
const char* word_of(ColumnType type) {
  switch (type) {
    case ColumnType::boolean: return "?";
    case ColumnType::uint8: return "u1";
    case ColumnType::uint16: return "<u2";
    case ColumnType::uint32: return "<u4";
    case ColumnType::uint64: return "<u8";
    case ColumnType::int64: return "<i8";
    case ColumnType::time: return "datetime64[ns]";
    case ColumnType::duration: return "timedelta64[ns]";
    case ColumnType::text: return "text";
    case ColumnType::bytes: return "bytes";
  }
  return "";
}

py::object text_of(const std::string& text) {
  PyObject* const made = PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "replace");
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::bytes bytes_of_row(const Column& column, std::size_t row) {
  const std::int64_t from = row == 0 ? 0 : column.ends()[row - 1], to = column.ends()[row];
  return {reinterpret_cast<const char*>(column.values().data()) + from, static_cast<std::size_t>(to - from)};
}

/// Returns the Python value of one row. `texts` are the texts of the column.
py::object value_of(const Column& column, std::size_t row, const std::vector<py::object>& texts) {
  if (!column.mask().empty() && column.mask()[row] != 0) return py::none();
  if (column.type() == ColumnType::text) return texts[static_cast<std::size_t>(column.codes()[row])];
  if (column.type() == ColumnType::bytes) return bytes_of_row(column, row);
  const unsigned width = width_of(column.type());
  std::uint64_t value = 0;
  std::memcpy(&value, column.values().data() + row * width, width);
  switch (column.type()) {
    case ColumnType::boolean: return py::bool_(value != 0);
    case ColumnType::int64:
    case ColumnType::time:
    case ColumnType::duration: return py::int_(static_cast<std::int64_t>(value));
    default: return py::int_(value);
  }
}

std::vector<py::object> texts_of(const Column& column) {
  std::vector<py::object> texts;
  texts.reserve(column.texts().size());
  for (const std::string& text : column.texts()) texts.push_back(text_of(text));
  return texts;
}

/// Returns all rows of the table. Sets `error` if the capture cannot be read completely.
Batch read_all(const Table& table, std::string& error) {
  const std::unique_ptr<Rows> rows = table.begin();
  Batch batch(table.source->columns());
  bool interrupted = false;
  {
    const py::gil_scoped_release unlocked;
    rows->keep_going = [&] {
      interrupted = !signals_are_quiet();
      return !interrupted;
    };
    for (std::size_t before = 0;;) {
      if (const auto read = rows->read(batch, SIZE_MAX, SIZE_MAX); !read) {
        error = read.error();
        break;
      }
      if (batch.rows() == before) break;
      before = batch.rows();
    }
  }
  if (interrupted) throw py::error_already_set();
  return batch;
}

/// Returns ({name: (type, memory or list of bytes, mask or None, texts or None)}, read error or None).
py::tuple read_columns(const Table& table) {
  std::string error;
  Batch batch = read_all(table, error);
  const std::vector<ColumnInfo>& infos = table.source->columns();
  py::dict columns;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    Column& column = batch.columns[i];
    py::object mask = py::none(), texts = py::none(), values;
    if (infos[i].optional) mask = py::cast(Memory(std::move(column.mask())));
    if (column.type() == ColumnType::text) {
      texts = py::cast(texts_of(column));
      values = py::cast(Memory(column.codes()));
    } else if (column.type() == ColumnType::bytes) {
      py::list list(column.rows());
      for (std::size_t row = 0; row < column.rows(); ++row) list[row] = bytes_of_row(column, row);
      values = std::move(list);
    } else {
      values = py::cast(Memory(std::move(column.values())));
    }
    columns[py::str(infos[i].name)] = py::make_tuple(word_of(infos[i].type), values, mask, texts);
  }
  return py::make_tuple(columns, error.empty() ? py::object(py::none()) : text_of(error));
}

/// Iterator over the rows of a table as dicts.
class RowIterator {
 public:
  explicit RowIterator(const Table& table)
      : source_(table.source), rows_(table.begin()), batch_(source_->columns()), texts_(batch_.columns.size()) {
    for (const ColumnInfo& info : source_->columns()) names_.emplace_back(info.name);
  }
  py::dict next() {
    if (at_ == batch_.rows()) refill();
    py::dict row;
    for (std::size_t i = 0; i < names_.size(); ++i) row[names_[i]] = value_of(batch_.columns[i], at_, texts_[i]);
    ++at_;
    return row;
  }

 private:
  static constexpr std::size_t rows_at_once = 4096;
  void refill() {
    if (over_) throw py::stop_iteration();
    // Other threads find null while this thread reads.
    std::unique_ptr<Rows> rows = std::move(rows_);
    if (!rows) raise(ErrorClass::usage, "another thread is reading these rows; use one iterator per thread");
    Batch batch(source_->columns());
    bool interrupted = false;
    tl::expected<void, std::string> read;
    {
      const py::gil_scoped_release unlocked;
      rows->keep_going = [&] {
        interrupted = !signals_are_quiet();
        return !interrupted;
      };
      read = rows->read(batch, rows_at_once, std::size_t{16} << 20);
      rows->keep_going = nullptr;
    }
    over_ = interrupted || !read || batch.rows() == 0;
    if (interrupted) throw py::error_already_set();
    if (!read) raise_reading(read.error());
    if (over_) throw py::stop_iteration();
    batch_ = std::move(batch);
    at_ = 0;
    for (std::size_t i = 0; i < texts_.size(); ++i) texts_[i] = texts_of(batch_.columns[i]);
    rows_ = std::move(rows);
  }

  std::shared_ptr<TableSource> source_;
  std::unique_ptr<Rows> rows_;
  Batch batch_;
  std::vector<std::vector<py::object>> texts_;
  std::vector<py::str> names_;
  std::size_t at_ = 0;
  bool over_ = false;
};

/// Returns a capsule. Its destructor releases a structure that was not imported.
template <class Struct>
py::capsule capsule_of(std::unique_ptr<Struct> made, const char* name) {
  PyObject* const capsule = PyCapsule_New(made.get(), name, [](PyObject* gone) {
    auto* const held = static_cast<Struct*>(PyCapsule_GetPointer(gone, PyCapsule_GetName(gone)));
    if (!held) return;
    if (held->release) held->release(held);
    delete held;
  });
  if (!capsule) {
    made->release(made.get());
    throw py::error_already_set();
  }
  static_cast<void>(made.release());
  return py::reinterpret_steal<py::capsule>(capsule);
}

py::capsule arrow_schema(const Table& table) {
  auto schema = std::make_unique<arrow::Schema>();
  arrow::export_schema(table.source->columns(), *schema);
  return capsule_of(std::move(schema), "arrow_schema");
}

py::capsule arrow_stream(const Table& table, std::size_t rows) {
  auto stream = std::make_unique<arrow::Stream>();
  arrow::BatchSize size;
  size.rows = rows;
  arrow::export_stream(table.begin(), table.source->columns(), size, *stream);
  return capsule_of(std::move(stream), "arrow_array_stream");
}

}  // namespace

std::unique_ptr<Rows> Table::begin() const {
  auto rows = [&] {
    const py::gil_scoped_release unlocked;
    return source->begin();
  }();
  if (!rows) raise_reading(rows.error());
  return std::move(*rows);
}

void raise_reading(const std::string& sentence) {
  raise(sentence.ends_with(" was closed") ? ErrorClass::closed : ErrorClass::capture, sentence);
}

bool signals_are_quiet() {
  const py::gil_scoped_acquire lock;
  return PyErr_CheckSignals() == 0;
}

void bind_columns(py::module_& module) {
  py::class_<Memory>(module, "Memory", py::buffer_protocol(), "C++ memory that Python reads without copying it.")
      .def_buffer(&Memory::info);
  py::class_<RowIterator>(module, "RowIterator", "Iterator over the rows of a table as dicts.")
      .def("__iter__", [](RowIterator& self) -> RowIterator& { return self; })
      .def("__next__", &RowIterator::next);
  py::class_<Table>(module, "ColumnTable",
                    "The C++ part of rdmawire.Table: the columns of a table and access to its rows.")
      .def_property_readonly(
          "columns",
          [](const Table& self) {
            py::list out;
            for (const ColumnInfo& info : self.source->columns())
              out.append(
                  py::make_tuple(info.name, word_of(info.type), info.optional, info.meaning,
                                 info.words ? py::object(py::tuple(py::cast(info.words->texts()))) : py::none()));
            return out;
          },
          "For each column: name, NumPy type (or text, bytes), whether values can be missing, meaning, and all words "
          "of its enumeration or None.")
      .def_readonly("name", &Table::name, "Contents and source of the table.")
      .def("read", &read_columns,
           "Read all rows. Returns (columns, error). Each column has a type, values, a mask and texts. `error` states "
           "why reading ended early, or is None.")
      .def(
          "rows", [](const Table& self) { return RowIterator(self); }, "Return an iterator over the rows as dicts.")
      .def("arrow_schema", &arrow_schema, "Return the columns as a capsule of the Arrow C data interface.")
      .def("arrow_stream", &arrow_stream, py::arg("rows"),
           "Return the rows as a capsule of the Arrow C stream interface, in batches of up to `rows` rows.");
  module.def("arrow_unreleased", &arrow::unreleased,
             "Return the number of exported Arrow structures that are not released. For tests.");
}

}  // namespace rdmawire::python
