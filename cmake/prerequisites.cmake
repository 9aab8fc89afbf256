# `pip install` of the source shows only the end of a failed build. Before the first find_package, this file names all
# missing Debian packages at once. scripts/setup.sh has the list.

set(default OFF)
if(SKBUILD)
  set(default ON)
endif()
option(RDMAWIRE_CHECK_PACKAGES "stop if Debian packages of the libraries are missing" ${default})

find_program(RDMAWIRE_DPKG_QUERY dpkg-query)
if(RDMAWIRE_CHECK_PACKAGES AND RDMAWIRE_DPKG_QUERY)
  execute_process(
    COMMAND bash -euc "source ./setup.sh; missing_packages \"\${packages_demo[@]}\""
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/scripts
    OUTPUT_VARIABLE missing COMMAND_ERROR_IS_FATAL ANY OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" missing "${missing}")
  # Libraries and their data. pybind11 and the headers of Python are not needed: pip provides both.
  list(FILTER missing INCLUDE REGEX "^lib|-dev$")
  list(FILTER missing EXCLUDE REGEX "^(pybind11|python3)-dev$")
  if(missing)
    list(JOIN missing " " missing)
    message(FATAL_ERROR "rdmawire cannot be built because Debian packages are missing. Install them with: "
      "apt-get install ${missing}\n(-D RDMAWIRE_CHECK_PACKAGES=OFF skips this check, for libraries from elsewhere.)")
  endif()
endif()
