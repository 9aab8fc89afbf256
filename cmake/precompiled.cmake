# Precompiled headers of libraries, with RDMAWIRE_PRECOMPILE. Headers of this project are never precompiled, because a
# change would recompile everything. Each source must include what it uses, which builds without
# precompiled headers check.
#
# A precompiled header serves only sources with the same options. There is one for the components, one for components
# with less optimization, and one for the tests.

function(rdmawire_precompiled_headers name)
  cmake_parse_arguments(HEADERS "COLD" "" "FILES;USES" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/${name}.cpp CONTENT "int main() { return 0; }\n" @ONLY)
  if(name MATCHES test)
    add_executable(${name} ${CMAKE_BINARY_DIR}/precompiled/${name}.cpp)  # tests are position-independent executables
  else()
    add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled/${name}.cpp)
  endif()
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_link_libraries(${name} PRIVATE rdmawire_flags fmt::fmt ${HEADERS_USES})
  target_precompile_headers(${name} PRIVATE ${HEADERS_FILES})
  if(HEADERS_COLD)
    rdmawire_cold(${name})
  endif()
endfunction()

# rdmawire_precompiled(TARGET OWNER): compiles the target with the precompiled headers of rdmawire_OWNER.
function(rdmawire_precompiled target owner)
  if(RDMAWIRE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM rdmawire_${owner})
  endif()
endfunction()

set(rdmawire_standard_headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cstdint> <cstring> <deque>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <string> <string_view>
  <thread> <unordered_map> <utility> <vector> <fmt/format.h>)

if(RDMAWIRE_PRECOMPILE)
  rdmawire_precompiled_headers(rdmawire_standard FILES ${rdmawire_standard_headers})
  rdmawire_precompiled_headers(rdmawire_standard_cold COLD FILES ${rdmawire_standard_headers})
  if(RDMAWIRE_TESTS)
    rdmawire_precompiled_headers(rdmawire_standard_test FILES ${rdmawire_standard_headers} <gmock/gmock.h> <gtest/gtest.h>
                                 USES GTest::gtest GTest::gmock)
  endif()
endif()
