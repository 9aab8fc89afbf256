# A second copy of sources, compiled to report executed basic blocks, in the same library as the original:
#
#   rdmawire_traced_copy(NAME
#     TRACED file...       sources that report each basic block to __sanitizer_cov_trace_pc
#     UNTRACED file...     sources that use the traced ones. One of them defines __sanitizer_cov_trace_pc
#     LIBRARIES target...  libraries that are duplicated into the copy, so that it has its own tables
#     USES target...       libraries whose headers these sources include
#     ENTRY symbol         the only global C symbol of the copy
#     HEADER name          a generated header with `traced_build`, a hash of the copy's code
#     OUTPUT variable)     set to the header and the object file, or to an empty list if there is no copy
#
# All symbols of the object except ENTRY are local, including inline functions. Therefore only the copy reports basic
# blocks. Builds with sanitizers, gcov or libFuzzer have no copy, because these also instrument the code.
function(rdmawire_traced_copy name)
  cmake_parse_arguments(COPY "" "ENTRY;HEADER;OUTPUT" "TRACED;UNTRACED;LIBRARIES;USES" ${ARGN})
  set(${COPY_OUTPUT} "" PARENT_SCOPE)
  if(RDMAWIRE_SANITIZE OR RDMAWIRE_COVERAGE OR RDMAWIRE_FUZZ)
    return()
  endif()
  # Use the linker of the cross compiler, if there is one.
  find_program(RDMAWIRE_LD NAMES ${CMAKE_LIBRARY_ARCHITECTURE}-ld.bfd ld.bfd)
  if(NOT RDMAWIRE_LD OR NOT CMAKE_OBJCOPY)
    message(STATUS "ld.bfd or objcopy is missing: the fuzzer cannot measure code coverage of the reference device")
    return()
  endif()
  foreach(part TRACED UNTRACED)
    string(TOLOWER ${part} lower)
    add_library(${name}_${lower} OBJECT ${COPY_${part}})
    target_link_libraries(${name}_${lower} PRIVATE ${COPY_USES} rdmawire_flags)
    target_compile_definitions(${name}_${lower} PRIVATE RDMAWIRE_TRACED_COPY)
    # Disables vectorized loops, whose executed blocks depend on the alignment of arrays, and split functions, which
    # have additional basic blocks.
    target_compile_options(${name}_${lower} PRIVATE -fno-lto -fno-tree-vectorize
                           $<$<CXX_COMPILER_ID:GNU>:-fno-reorder-blocks-and-partition>)
  endforeach()
  target_compile_options(${name}_traced PRIVATE -fsanitize-coverage=trace-pc)
  rdmawire_unity(${name}_traced 150000)
  set_target_properties(${name}_untraced PROPERTIES UNITY_BUILD ${RDMAWIRE_UNITY})
  list(TRANSFORM COPY_LIBRARIES REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/${COPY_HEADER})
  add_custom_command(OUTPUT ${object} ${header}
    COMMAND ${CMAKE_COMMAND} -D LD=${RDMAWIRE_LD} -D NM=${CMAKE_NM} -D OBJCOPY=${CMAKE_OBJCOPY} -D ENTRY=${COPY_ENTRY}
            -D OBJECT=${object} -D HEADER=${header} -P ${PROJECT_SOURCE_DIR}/cmake/traced_object.cmake --
            $<TARGET_OBJECTS:${name}_traced> $<TARGET_OBJECTS:${name}_untraced> ${archives}
    DEPENDS $<TARGET_OBJECTS:${name}_traced> $<TARGET_OBJECTS:${name}_untraced> ${COPY_LIBRARIES}
            ${PROJECT_SOURCE_DIR}/cmake/traced_object.cmake
    COMMAND_EXPAND_LISTS VERBATIM)
  rdmawire_generated(${name}_object ${object} ${header})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${COPY_OUTPUT} ${object} ${header} PARENT_SCOPE)
endfunction()
