#pragma once
/// The Arrow C data interface and C stream interface: tables for any library that speaks Arrow, without one of them.
///
/// The three structures are a binary interface that the Arrow specification fixes ("The Arrow C data interface", "The
/// Arrow C stream interface"); consumers find them in capsules ("The Arrow PyCapsule Interface").

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
  void (*release)(Schema*) = nullptr;  ///< nullptr: was released
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

/// Arrays one after the other; each function gives 0 or a number of errno.
struct Stream {
  int (*get_schema)(Stream*, Schema* out) = nullptr;
  int (*get_next)(Stream*, Array* out) = nullptr;  ///< at the end `out` is released
  const char* (*get_last_error)(Stream*) = nullptr;
  void (*release)(Stream*) = nullptr;
  void* private_data = nullptr;
};

/// How large the batches of a stream become.
struct BatchSize {
  std::size_t rows = 65'536;
  std::size_t bytes = std::size_t{64} << 20;  ///< of memory, about; at least one row
};

/// A struct of the columns, each a child. Columns of words are dictionary-encoded: codes of 32 bits, and all words of
/// the enumeration, the same for every batch.
void export_schema(const std::vector<ColumnInfo>& infos, Schema& out);
/// The rows of `batch`, whose memory goes over to `out` as far as its form is Arrow's; the batch is empty then.
void export_batch(Batch& batch, const std::vector<ColumnInfo>& infos, Array& out);
/// All rows; nothing is read before the consumer asks.
void export_stream(std::unique_ptr<Rows> rows, std::vector<ColumnInfo> infos, BatchSize size, Stream& out);

/// How many arrays, schemas and streams were exported and are not released: for tests.
std::int64_t unreleased();

}  // namespace rdmawire::python::arrow
