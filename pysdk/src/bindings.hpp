#pragma once
/// The parts of the module in the order of initialization. Each file defines one part.

#include <pybind11/pybind11.h>

namespace rdmawire::python {

namespace py = pybind11;

void bind_errors(py::module_& module);
void bind_enumerations(py::module_& module);
void bind_frames(py::module_& module);
void bind_header_tables(py::module_& module);
void bind_columns(py::module_& module);
void bind_captures(py::module_& module);
void bind_captured_frames(py::module_& module);
void bind_fuzz(py::module_& module);
void bind_analysis(py::module_& module);
void bind_more_analysis(py::module_& module);
void bind_check(py::module_& module);
void bind_wires(py::module_& module);
void bind_devices(py::module_& module);
void bind_cases_vocabulary(py::module_& module);
void bind_cases_run(py::module_& module);
void bind_replay(py::module_& module);
void bind_distributed(py::module_& module);
/// Replaces pybind11's errors for rejected arguments of the functions above by the texts of rdmawire.arguments.
void explain_argument_errors(py::module_& module);

}  // namespace rdmawire::python
