# cmake -D LD=… -D NM=… -D OBJCOPY=… -D ENTRY=symbol -D OBJECT=file.o -D HEADER=file.hpp -P traced_object.cmake FILE…
#
# Links FILEs to one object in which all symbols except ENTRY are local, and writes a header with a hash of the object.
# Links only those members of archives that are needed.
set(files "")
set(after_separator FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(after_separator)
    list(APPEND files "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(after_separator TRUE)
  endif()
endforeach()
function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${LD} -r --force-group-allocation -o ${OBJECT} ${files})
# objcopy makes weak symbols (V) local, but not gcc's unique symbols (u).
run(${NM} ${OBJECT})
string(REGEX MATCHALL " u [^\n]+" unique "${output}")
list(TRANSFORM unique REPLACE "^ u " "")
list(JOIN unique "\n" unique)
file(WRITE ${OBJECT}.unique "${unique}\n")
run(${OBJCOPY} --weaken-symbols=${OBJECT}.unique ${OBJECT})
run(${OBJCOPY} --keep-global-symbol=${ENTRY} ${OBJECT})
file(REMOVE ${OBJECT}.unique)

file(SHA256 ${OBJECT} hash)
string(SUBSTRING ${hash} 0 16 number)
file(WRITE ${HEADER} "#pragma once
#include <cstdint>
/// Hash of the traced copy. Edges are comparable only between builds with the same hash.
inline constexpr std::uint64_t traced_build = 0x${number};
")
