#pragma once
/// Tables as Python has them: _core.Table.

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <string>

#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// A table, as Python holds it.
struct Table {
  std::shared_ptr<TableSource> source;
  std::string name;  ///< "packets of x.pcap"

  [[nodiscard]] std::unique_ptr<Rows> begin() const;
};

/// Raises what a table's reading ended with: ClosedError or CaptureError.
[[noreturn]] void raise_reading(const std::string& sentence);

/// Asks the interpreter, from a thread that does not hold its lock, whether Ctrl-C was pressed; false: an exception is
/// set, to be thrown when the lock is held again.
bool signals_are_quiet();

}  // namespace rdmawire::python
