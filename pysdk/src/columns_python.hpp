#pragma once
/// Tables in Python: _core.ColumnTable.

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <string>

#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// A table held by Python.
struct Table {
  std::shared_ptr<TableSource> source;
  std::string name;  ///< "packets of x.pcap"

  [[nodiscard]] std::unique_ptr<Rows> begin() const;
};

/// Raises the error of a table: ClosedError or CaptureError.
[[noreturn]] void raise_reading(const std::string& sentence);

/// Runs Python's signal handlers from a thread that does not hold the interpreter's lock. False: a handler raised an
/// exception, to be thrown when the lock is held again.
bool signals_are_quiet();

}  // namespace rdmawire::python
