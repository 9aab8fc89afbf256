#include "pysdk/src/arrow.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <new>

namespace rdmawire::python::arrow {
namespace {

constexpr std::int64_t nullable = 2;

std::atomic<std::int64_t> live{0};

const char* format_of(ColumnType type) {
  switch (type) {
    case ColumnType::boolean: return "b";
    case ColumnType::uint8: return "C";
    case ColumnType::uint16: return "S";
    case ColumnType::uint32: return "I";
    case ColumnType::uint64: return "L";
    case ColumnType::int64: return "l";
    case ColumnType::time: return "tsn:UTC";
    case ColumnType::duration: return "tDn";
    case ColumnType::text: return "u";
    case ColumnType::bytes: return "z";
  }
  return "n";
}

/// Memory of a schema.
struct SchemaMemory {
  std::string name;
  std::vector<Schema> children;
  std::vector<Schema*> pointers;
  Schema dictionary;
};

void release_schema(Schema* schema) {
  auto* const memory = static_cast<SchemaMemory*>(schema->private_data);
  // The importer may have moved a child. Its `release` is then null, and its memory is not released here.
  for (Schema& child : memory->children)
    if (child.release) child.release(&child);
  if (memory->dictionary.release) memory->dictionary.release(&memory->dictionary);
  delete memory;
  schema->release = nullptr;
  --live;
}

void begin_schema(Schema& out, const char* format, std::string name, std::int64_t flags,
                  std::vector<Schema> children = {}) {
  auto memory = std::make_unique<SchemaMemory>(SchemaMemory{std::move(name), std::move(children), {}, {}});
  for (Schema& child : memory->children) memory->pointers.push_back(&child);
  out = {};
  out.format = format;
  out.name = memory->name.c_str();
  out.flags = flags;
  out.n_children = static_cast<std::int64_t>(memory->children.size());
  out.children = memory->pointers.empty() ? nullptr : memory->pointers.data();
  out.release = release_schema;
  out.private_data = memory.release();
  ++live;
}

/// Exports the type of a column. Columns of names are dictionary-encoded: codes and the type of the names.
void begin_schema(Schema& out, const ColumnInfo& info) {
  const std::int64_t flags = info.optional ? nullable : 0;
  if (!info.words) return begin_schema(out, format_of(info.type), info.name, flags);
  begin_schema(out, "i", info.name, flags);
  Schema& dictionary = static_cast<SchemaMemory*>(out.private_data)->dictionary;
  begin_schema(dictionary, format_of(info.type), "", 0);
  out.dictionary = &dictionary;
}

/// Memory of an array.
struct ArrayMemory {
  std::vector<std::uint8_t> validity, values;
  std::vector<std::int32_t> offsets;  ///< codes in columns of names
  std::vector<const void*> buffers;
  std::vector<Array> children;
  std::vector<Array*> pointers;
  Array dictionary;
  std::shared_ptr<const Words> words;  ///< owner of the buffers of a dictionary
};

void release_array(Array* array) {
  auto* const memory = static_cast<ArrayMemory*>(array->private_data);
  for (Array& child : memory->children)
    if (child.release) child.release(&child);
  if (memory->dictionary.release) memory->dictionary.release(&memory->dictionary);
  delete memory;
  array->release = nullptr;
  --live;
}

void begin_array(Array& out, std::unique_ptr<ArrayMemory> memory, std::size_t length, std::size_t nulls) {
  for (Array& child : memory->children) memory->pointers.push_back(&child);
  out = {};
  out.length = static_cast<std::int64_t>(length);
  out.null_count = static_cast<std::int64_t>(nulls);
  out.n_buffers = static_cast<std::int64_t>(memory->buffers.size());
  out.n_children = static_cast<std::int64_t>(memory->children.size());
  out.buffers = memory->buffers.data();
  out.children = memory->pointers.empty() ? nullptr : memory->pointers.data();
  out.dictionary = memory->dictionary.release ? &memory->dictionary : nullptr;
  out.release = release_array;
  out.private_data = memory.release();
  ++live;
}

/// One bit per row, lowest bit first. A bit is set if the byte is not zero, or with `inverted` if it is zero.
std::vector<std::uint8_t> bits_of(const std::vector<std::uint8_t>& bytes, bool inverted) {
  std::vector<std::uint8_t> bits((bytes.size() + 7) / 8);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | ((bytes[i] != 0) != inverted ? 1 : 0) << i % 8);
  return bits;
}

/// Some importers reject a null pointer for an empty buffer.
template <class Container>
const void* buffer_of(const Container& container) {
  static const std::uint64_t empty = 0;
  return container.empty() ? static_cast<const void*>(&empty) : container.data();
}

/// Exports all names. All batches share their memory.
void export_words(const std::shared_ptr<const Words>& words, Array& out) {
  auto memory = std::make_unique<ArrayMemory>();
  memory->words = words;
  memory->buffers = {nullptr, words->offsets().data(), buffer_of(words->characters())};
  begin_array(out, std::move(memory), words->texts().size(), 0);
}

void export_column(Column& column, const ColumnInfo& info, Array& out) {
  auto memory = std::make_unique<ArrayMemory>();
  const std::size_t rows = column.rows(), nulls = column.missing();
  if (nulls) memory->validity = bits_of(column.mask(), true);
  memory->buffers.push_back(nulls ? memory->validity.data() : nullptr);
  if (info.words) {
    memory->offsets = std::move(column.codes());
    // Some importers read the code of missing values, so it must be valid.
    if (nulls) std::replace(memory->offsets.begin(), memory->offsets.end(), -1, 0);
    memory->buffers.push_back(buffer_of(memory->offsets));
    export_words(info.words, memory->dictionary);
    return begin_array(out, std::move(memory), rows, nulls);
  }
  if (column.type() == ColumnType::text) {
    memory->offsets.reserve(rows + 1);
    memory->offsets.push_back(0);
    for (const std::int32_t code : column.codes()) {
      if (code >= 0) {
        const std::string& text = column.texts()[static_cast<std::size_t>(code)];
        memory->values.insert(memory->values.end(), text.begin(), text.end());
      }
      memory->offsets.push_back(static_cast<std::int32_t>(memory->values.size()));
    }
  } else if (column.type() == ColumnType::bytes) {
    memory->offsets.reserve(rows + 1);
    memory->offsets.push_back(0);
    for (const std::int64_t end : column.ends()) memory->offsets.push_back(static_cast<std::int32_t>(end));
    memory->values = std::move(column.values());
  } else if (column.type() == ColumnType::boolean) {
    memory->values = bits_of(column.values(), false);
  } else {
    memory->values = std::move(column.values());
  }
  if (!memory->offsets.empty()) memory->buffers.push_back(memory->offsets.data());
  memory->buffers.push_back(buffer_of(memory->values));
  begin_array(out, std::move(memory), rows, nulls);
}

/// Source of a stream.
struct StreamMemory {
  std::unique_ptr<Rows> rows;
  std::vector<ColumnInfo> infos;
  BatchSize size;
  std::string error;
};

StreamMemory& memory_of(Stream* stream) { return *static_cast<StreamMemory*>(stream->private_data); }

/// Converts exceptions into error numbers.
template <class Work>
int guarded(Stream* stream, Work work) {
  StreamMemory& memory = memory_of(stream);
  try {
    return work(memory);
  } catch (const std::bad_alloc&) {
    memory.error = "out of memory";
    return ENOMEM;
  } catch (const std::exception& error) {
    memory.error = error.what();
    return EIO;
  }
}

int stream_schema(Stream* stream, Schema* out) {
  return guarded(stream, [&](StreamMemory& memory) {
    export_schema(memory.infos, *out);
    return 0;
  });
}

int stream_next(Stream* stream, Array* out) {
  *out = {};
  return guarded(stream, [&](StreamMemory& memory) {
    if (!memory.rows) return 0;
    Batch batch(memory.infos);
    const auto read = memory.rows->read(batch, memory.size.rows, memory.size.bytes);
    if (!read) {
      memory.error = read.error();
      memory.rows.reset();
      return EIO;
    }
    if (batch.rows() == 0)
      memory.rows.reset();
    else
      export_batch(batch, memory.infos, *out);
    return 0;
  });
}

const char* stream_error(Stream* stream) {
  const StreamMemory& memory = memory_of(stream);
  return memory.error.empty() ? nullptr : memory.error.c_str();
}

void release_stream(Stream* stream) {
  delete &memory_of(stream);
  stream->release = nullptr;
  --live;
}

}  // namespace

void export_schema(const std::vector<ColumnInfo>& infos, Schema& out) {
  std::vector<Schema> children(infos.size());
  for (std::size_t i = 0; i < infos.size(); ++i) begin_schema(children[i], infos[i]);
  begin_schema(out, "+s", "", 0, std::move(children));
}

void export_batch(Batch& batch, const std::vector<ColumnInfo>& infos, Array& out) {
  auto memory = std::make_unique<ArrayMemory>();
  memory->buffers.push_back(nullptr);  // the struct has no missing rows
  memory->children.resize(infos.size());
  const std::size_t rows = batch.rows();
  for (std::size_t i = 0; i < infos.size(); ++i) export_column(batch.columns[i], infos[i], memory->children[i]);
  begin_array(out, std::move(memory), rows, 0);
  batch.clear();
}

void export_stream(std::unique_ptr<Rows> rows, std::vector<ColumnInfo> infos, BatchSize size, Stream& out) {
  auto memory = std::make_unique<StreamMemory>(StreamMemory{std::move(rows), std::move(infos), size, {}});
  out.get_schema = stream_schema;
  out.get_next = stream_next;
  out.get_last_error = stream_error;
  out.release = release_stream;
  out.private_data = memory.release();
  ++live;
}

std::int64_t unreleased() { return live; }

}  // namespace rdmawire::python::arrow
