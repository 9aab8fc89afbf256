# A second copy of some code, compiled to report the basic blocks that it runs through, in the same library as the first:
#
#   rdmawire_traced_copy(NAME
#     TRACED file...     sources that report each basic block to __sanitizer_cov_trace_pc
#     BESIDE file...     sources that use them and do not report; one of them defines that function
#     WITH target...     libraries of which the copy has its own, so that addresses of their tables are its own
#     USES target...     what all of these include
#     ENTRY symbol       the C name that is left of the copy to those who link it
#     HEADER name        a header that is made for them: `traced_build`, a number of this copy's code
#     OUTPUT variable)   gets the header and the one object file with all of that, or nothing: there is no copy
#
# Everything in the object but ENTRY is local to it, inline functions too: nothing outside runs code that reports, and the
# copy runs none that does not. Sanitizers, gcov and libFuzzer instrument by themselves; there the copy is left out.
function(rdmawire_traced_copy name)
  cmake_parse_arguments(COPY "" "ENTRY;HEADER;OUTPUT" "TRACED;BESIDE;WITH;USES" ${ARGN})
  set(${COPY_OUTPUT} "" PARENT_SCOPE)
  if(RDMAWIRE_SANITIZE OR RDMAWIRE_COVERAGE OR RDMAWIRE_FUZZ)
    return()
  endif()
  # A cross compiler has a linker of its own.
  find_program(RDMAWIRE_LD NAMES ${CMAKE_LIBRARY_ARCHITECTURE}-ld.bfd ld.bfd)
  if(NOT RDMAWIRE_LD OR NOT CMAKE_OBJCOPY)
    message(STATUS "no ld.bfd or no objcopy: the fuzzer has no coverage of the reference device's code")
    return()
  endif()
  foreach(part TRACED BESIDE)
    string(TOLOWER ${part} lower)
    add_library(${name}_${lower} OBJECT ${COPY_${part}})
    target_link_libraries(${name}_${lower} PRIVATE ${COPY_USES} rdmawire_flags)
    target_compile_definitions(${name}_${lower} PRIVATE RDMAWIRE_TRACED_COPY)
    # What a loop over two arrays does depends on where they lie once it is vectorized; and a function stays in one piece.
    target_compile_options(${name}_${lower} PRIVATE -fno-lto -fno-tree-vectorize
                           $<$<CXX_COMPILER_ID:GNU>:-fno-reorder-blocks-and-partition>)
  endforeach()
  target_compile_options(${name}_traced PRIVATE -fsanitize-coverage=trace-pc)
  rdmawire_unity(${name}_traced 150000)
  set_target_properties(${name}_beside PROPERTIES UNITY_BUILD ${RDMAWIRE_UNITY})
  list(TRANSFORM COPY_WITH REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/${COPY_HEADER})
  add_custom_command(OUTPUT ${object} ${header}
    COMMAND ${CMAKE_COMMAND} -D LD=${RDMAWIRE_LD} -D NM=${CMAKE_NM} -D OBJCOPY=${CMAKE_OBJCOPY} -D ENTRY=${COPY_ENTRY}
            -D OBJECT=${object} -D HEADER=${header} -P ${PROJECT_SOURCE_DIR}/cmake/traced_object.cmake --
            $<TARGET_OBJECTS:${name}_traced> $<TARGET_OBJECTS:${name}_beside> ${archives}
    DEPENDS $<TARGET_OBJECTS:${name}_traced> $<TARGET_OBJECTS:${name}_beside> ${COPY_WITH}
            ${PROJECT_SOURCE_DIR}/cmake/traced_object.cmake
    COMMAND_EXPAND_LISTS VERBATIM)
  rdmawire_generated(${name}_object ${object} ${header})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${COPY_OUTPUT} ${object} ${header} PARENT_SCOPE)
endfunction()
