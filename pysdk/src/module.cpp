/// The module rdmawire._core. Each file of this directory defines a part.

#include <pybind11/pybind11.h>

#include "pysdk/src/bindings.hpp"
#include "pysdk/src/objects.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ part of the package rdmawire.";
  module.attr("__version__") = RDMAWIRE_VERSION;
  rdmawire::python::bind_errors(module);
  rdmawire::python::bind_enumerations(module);
  rdmawire::python::bind_frames(module);
  rdmawire::python::bind_header_tables(module);
  rdmawire::python::bind_user_headers(module);
  rdmawire::python::bind_columns(module);
  rdmawire::python::bind_captures(module);
  rdmawire::python::bind_captured_frames(module);
  rdmawire::python::bind_fuzz(module);
  rdmawire::python::bind_analysis(module);
  rdmawire::python::bind_more_analysis(module);
  rdmawire::python::bind_check(module);
  rdmawire::python::bind_wires(module);
  rdmawire::python::bind_cases_vocabulary(module);
  rdmawire::python::bind_devices(module);
  rdmawire::python::bind_cases_run(module);
  rdmawire::python::bind_replay(module);
  rdmawire::python::bind_distributed(module);
  rdmawire::python::explain_argument_errors(module);
}
