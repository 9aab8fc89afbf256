#pragma once
/// Test cases written in Python: the objects that they use while they run.

#include <pybind11/pybind11.h>

#include <memory>

#include "conformance/cases/case.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// The bench of a running case, for one of the two transport families. Both are null after the case has ended.
struct BenchHandle {
  conformance::Bench* bench = nullptr;
  conformance::iwarp::IwarpBench* streams = nullptr;
};

/// Returns a Python object of class Bench.
py::object bench_object(std::shared_ptr<BenchHandle> handle);
/// Returns a Python object of class IwarpBench.
py::object stream_bench_object(std::shared_ptr<BenchHandle> handle);

/// Raises CaseEnd, which ends a case early. The class derives from BaseException, so that a case does not catch it
/// accidentally.
[[noreturn]] void raise_case_end(const conformance::CaseEnd& end);

/// Runs `work` with a bench, without the interpreter's lock. Raises CaseEnd if the bench ends the case.
template <class AnyBench, class Work>
auto with_bench(AnyBench* bench, const Work& work) {
  if (!bench) raise(ErrorClass::closed, "the case has ended, and its bench was closed");
  try {
    const py::gil_scoped_release released;
    return work(*bench);
  } catch (const conformance::CaseEnd& end) {
    raise_case_end(end);
  }
}
template <class Work>
auto with_streams(const std::shared_ptr<BenchHandle>& handle, const Work& work) {
  return with_bench(handle->streams, work);
}

/// Converts a CaseEnd exception. Returns nullopt for other exceptions.
std::optional<conformance::CaseEnd> case_end_of(const py::error_already_set& error);

/// Returns the verdict for an exception of a Python case. Requires the interpreter's lock.
conformance::Judgment judgment_of(const py::error_already_set& error);

/// Interrupts the Python code of cases that run on this device: it raises SystemExit when it continues. Acquires the
/// interpreter's lock.
void interrupt_cases_on(const conformance::DeviceUnderTest& device);

}  // namespace rdmawire::python
