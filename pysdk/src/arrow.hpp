#pragma once
/// The Arrow C data interface and C stream interface, implemented without an Arrow library.
///
/// The three structures are a binary interface defined by the Arrow specification ("The Arrow C data interface", "The
/// Arrow C stream interface"). Importers receive them in capsules ("The Arrow PyCapsule Interface").

#include <cstdint>
#include <memory>

#include "pysdk/src/columns.hpp"

namespace rdmawire::python::arrow {

/// The type of an array.
struct Schema {
  const char* format = nullptr;
  const char* name = nullptr;
  const char* metadata = nullptr;
  std::int64_t flags = 0;
  std::int64_t n_children = 0;
  Schema** children = nullptr;
  Schema* dictionary = nullptr;
  void (*release)(Schema*) = nullptr;  ///< nullptr: released
  void* private_data = nullptr;
};

/// The values of an array.
struct Array {
  std::int64_t length = 0;
  std::int64_t null_count = 0;
  std::int64_t offset = 0;
  std::int64_t n_buffers = 0;
  std::int64_t n_children = 0;
  const void** buffers = nullptr;
  Array** children = nullptr;
  Array* dictionary = nullptr;
  void (*release)(Array*) = nullptr;
  void* private_data = nullptr;
};

/// A sequence of arrays. Each function returns 0 or an errno value.
struct Stream {
  int (*get_schema)(Stream*, Schema* out) = nullptr;
  int (*get_next)(Stream*, Array* out) = nullptr;  ///< returns a released array at the end
  const char* (*get_last_error)(Stream*) = nullptr;
  void (*release)(Stream*) = nullptr;
  void* private_data = nullptr;
};

/// Maximum size of the batches of a stream.
struct BatchSize {
  std::size_t rows = 65'536;
  std::size_t bytes = std::size_t{64} << 20;  ///< approximate memory. A batch has at least one row
};

/// Exports a struct with one child per column. Columns of words are dictionary-encoded: 32-bit codes, and all words of
/// the enumeration, the same in each batch.
void export_schema(const std::vector<ColumnInfo>& infos, Schema& out);
/// Exports the rows of `batch`. Moves memory that has Arrow's layout. The batch is empty afterwards.
void export_batch(Batch& batch, const std::vector<ColumnInfo>& infos, Array& out);
/// Exports all rows. Rows are read when the importer requests them.
void export_stream(std::unique_ptr<Rows> rows, std::vector<ColumnInfo> infos, BatchSize size, Stream& out);

/// Number of exported arrays, schemas and streams that are not released. For tests.
std::int64_t unreleased();

}  // namespace rdmawire::python::arrow
