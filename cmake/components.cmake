# A component is one static library, with its tests, benchmarks and fuzz targets in the same directory.
#
#   rdmawire_component(NAME
#     COLD                      optimize it less in releases, because the speed of its code is unimportant
#     NO_PRECOMPILED            compile it without the precompiled headers, because it does not link {fmt}'s library
#     SOURCES file...           sources of the library rdmawire_NAME (alias rdmawire::NAME)
#     USES target...            packages and components that this one uses, public
#     TESTS file_test.cpp...    one GoogleTest program for the component: NAME_test
#     TEST_USES target...       additional libraries of the tests
#     BENCHMARKS file_bench.cpp...  one Google Benchmark program: NAME_bench
#     BENCHMARK_USES target...  additional libraries of the benchmarks (for comparison)
#     FUZZERS file_fuzz.cpp...  one libFuzzer program per file
#     FUZZER_USES target...)    additional libraries of the fuzz targets
#
# scripts/check-layering checks the #include lines between components.

add_library(rdmawire_flags INTERFACE)
target_compile_options(rdmawire_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
  # Tables are computed at compile time, which needs more steps than clang's default limit of a million.
  $<$<CXX_COMPILER_ID:Clang>:-fconstexpr-steps=16777216>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # gcc 12 reports false overlaps in std::string (gcc bug 105329).
  target_compile_options(rdmawire_flags INTERFACE -Wno-restrict)
  # With -O3, gcc's data flow warnings report false positives after inlining, for std::optional and for std::sort of a
  # short array. The other presets and the sanitizers detect real errors of this kind.
  target_compile_options(rdmawire_flags INTERFACE
    $<$<CONFIG:Release>:-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow>)
  # If the standard library is precompiled, gcc 12 reports impossible sizes and offsets in its code. The preset tsan
  # checks for such errors without precompiled headers.
  if(RDMAWIRE_PRECOMPILE)
    target_compile_options(rdmawire_flags INTERFACE -Wno-stringop-overflow -Wno-array-bounds)
  endif()
endif()
if(RDMAWIRE_UNITY)
  # A unity build compiles types of anonymous namespaces outside of the main file, and a local variable can shadow a
  # constant of another source. Builds of single sources check for both.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(rdmawire_flags INTERFACE -Wno-subobject-linkage -Wno-shadow -Wshadow=local)
  else()
    target_compile_options(rdmawire_flags INTERFACE -Wno-shadow)
  endif()
endif()
if(RDMAWIRE_WERROR)
  target_compile_options(rdmawire_flags INTERFACE -Werror)
endif()
if(RDMAWIRE_SANITIZE)
  target_compile_options(rdmawire_flags INTERFACE -fsanitize=${RDMAWIRE_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  target_link_options(rdmawire_flags INTERFACE -fsanitize=${RDMAWIRE_SANITIZE})
endif()
if(RDMAWIRE_FUZZ)
  target_compile_options(rdmawire_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(RDMAWIRE_COVERAGE)
  target_compile_options(rdmawire_flags INTERFACE --coverage)
  target_link_options(rdmawire_flags INTERFACE --coverage)
endif()

# The path of the working copy is in a header and not in a definition for all sources, so that working copies can share
# the objects of other sources.
set(RDMAWIRE_TEST_INCLUDE ${CMAKE_BINARY_DIR}/generated)
file(CONFIGURE OUTPUT ${RDMAWIRE_TEST_INCLUDE}/source_directory.hpp CONTENT
"#pragma once
/// The root of the working copy, without a trailing slash.
#define RDMAWIRE_SOURCE_DIR \"@PROJECT_SOURCE_DIR@\"
" @ONLY)

# rdmawire_unity(TARGET BYTES): with RDMAWIRE_UNITY, compiles the sources of the target in translation units of similar
# size, with at most about BYTES of sources each. This limits the memory of a compiler, and keeps all processors busy.
function(rdmawire_unity target bytes_per_unit)
  if(NOT RDMAWIRE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(total 0)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${source} generated)
    if(NOT generated)
      file(SIZE ${source} bytes)
      math(EXPR total "${total} + ${bytes}")
      list(APPEND grouped ${source})
      list(APPEND ends ${total})
    endif()
  endforeach()
  math(EXPR units "${total} / ${bytes_per_unit} + 1")
  foreach(source end IN ZIP_LISTS grouped ends)
    math(EXPR unit "(${end} - 1) * ${units} / ${total}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# rdmawire_cold(TARGET): optimizes the target less in releases, because its speed is unimportant.
function(rdmawire_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# rdmawire_generated(NAME file...): adds a target for the outputs of a custom command. Otherwise, CMake generates them
# only after it has linked all libraries that their component uses, and the objects of the component must wait.
function(rdmawire_generated name)
  add_custom_target(${name} DEPENDS ${ARGN})
endfunction()

function(rdmawire_component name)
  cmake_parse_arguments(COMPONENT "COLD;NO_PRECOMPILED" "" "SOURCES;USES;TESTS;TEST_USES;BENCHMARKS;BENCHMARK_USES;FUZZERS;FUZZER_USES" ${ARGN})
  set(target rdmawire_${name})
  add_library(${target} STATIC ${COMPONENT_SOURCES})
  add_library(rdmawire::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rdmawire>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${COMPONENT_USES} PRIVATE $<BUILD_INTERFACE:rdmawire_flags>)
  rdmawire_unity(${target} 150000)
  if(COMPONENT_COLD)
    rdmawire_cold(${target})
  endif()
  if(NOT COMPONENT_NO_PRECOMPILED)
    if(COMPONENT_COLD AND CMAKE_BUILD_TYPE STREQUAL Release)
      rdmawire_precompiled(${target} standard_cold)
    else()
      rdmawire_precompiled(${target} standard)
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY RDMAWIRE_COMPONENTS ${target})

  if(RDMAWIRE_TESTS AND COMPONENT_TESTS)
    add_executable(${name}_test ${COMPONENT_TESTS})
    target_link_libraries(${name}_test PRIVATE ${target} rdmawire_flags GTest::gtest GTest::gmock GTest::gtest_main
                                               ${COMPONENT_TEST_USES})
    target_include_directories(${name}_test PRIVATE ${RDMAWIRE_TEST_INCLUDE})
    if(NOT COMPONENT_NO_PRECOMPILED)
      rdmawire_precompiled(${name}_test standard_test)
    endif()
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST)
  endif()

  if(RDMAWIRE_BENCHMARKS AND COMPONENT_BENCHMARKS)
    add_executable(${name}_bench ${COMPONENT_BENCHMARKS})
    target_link_libraries(${name}_bench PRIVATE ${target} rdmawire_flags benchmark::benchmark
                                                benchmark::benchmark_main ${COMPONENT_BENCHMARK_USES})
  endif()

  if(RDMAWIRE_FUZZ)
    foreach(source IN LISTS COMPONENT_FUZZERS)
      get_filename_component(fuzzer ${source} NAME_WE)
      add_executable(${fuzzer} ${source})
      target_link_libraries(${fuzzer} PRIVATE ${target} rdmawire_flags ${COMPONENT_FUZZER_USES})
      target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
      set_property(GLOBAL APPEND PROPERTY RDMAWIRE_FUZZERS ${fuzzer})
      set_property(GLOBAL APPEND_STRING PROPERTY RDMAWIRE_FUZZERS_LIST
        "${fuzzer}|$<TARGET_FILE:${fuzzer}>|${CMAKE_CURRENT_SOURCE_DIR}\n")
    endforeach()
  endif()
endfunction()

# rdmawire_runnable(TARGET VARIABLE): sets VARIABLE to the path with which a test starts a program of the build. If the
# build is a cross-compilation with an emulator, it is a script that starts the program in the emulator.
function(rdmawire_runnable target variable)
  set(path $<TARGET_FILE:${target}>)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    set(path ${CMAKE_BINARY_DIR}/emulated/${target})
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
    file(GENERATE OUTPUT ${path} CONTENT "#!/bin/sh\nexec ${emulator} $<TARGET_FILE:${target}> \"$@\"\n"
         FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
  set(${variable} ${path} PARENT_SCOPE)
endfunction()

# Must be called once, after the last component. Adds the target `fuzzers`, which builds all fuzz targets, and writes
# fuzzers.txt, from which scripts/fuzz reads their programs and components.
function(rdmawire_fuzzers)
  get_property(fuzzers GLOBAL PROPERTY RDMAWIRE_FUZZERS)
  get_property(list GLOBAL PROPERTY RDMAWIRE_FUZZERS_LIST)
  add_custom_target(fuzzers DEPENDS ${fuzzers})
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/fuzzers.txt CONTENT "${list}")
endfunction()
