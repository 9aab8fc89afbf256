#pragma once
/// Cases that are written in Python: what they work with, for as long as the case runs.

#include <pybind11/pybind11.h>

#include <memory>

#include "conformance/cases/case.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// The bench of a case that runs, of one of the families; neither once it has ended.
struct BenchHandle {
  conformance::Bench* bench = nullptr;
  conformance::iwarp::IwarpBench* streams = nullptr;
};

/// The Python object for it, of class Bench.
py::object bench_object(std::shared_ptr<BenchHandle> handle);
/// The same of iWARP, of class IwarpBench.
py::object stream_bench_object(std::shared_ptr<BenchHandle> handle);

/// What ends a case early, on its way through Python: an exception of class CaseEnd, which is no Exception, so that a
/// case does not catch it by accident.
[[noreturn]] void raise_case_end(const conformance::CaseEnd& end);

/// Does it with a bench, without the interpreter's lock; what ends the case goes on as Python's exception.
template <class AnyBench, class Work>
auto with_bench(AnyBench* bench, const Work& work) {
  if (!bench) raise(ErrorClass::closed, "the case has ended, and its bench with it");
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

/// The same back; nothing: the error is another one.
std::optional<conformance::CaseEnd> case_end_of(const py::error_already_set& error);

/// What a Python case threw, as how it ends. Needs the interpreter's lock.
conformance::Judgment judgment_of(const py::error_already_set& error);

/// Ends what Python does for cases on that device: an exception comes to it as soon as it goes on. Takes the
/// interpreter's lock.
void interrupt_cases_on(const conformance::DeviceUnderTest& device);

}  // namespace rdmawire::python
