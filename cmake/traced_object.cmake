# cmake -D LD=… -D NM=… -D OBJCOPY=… -D ENTRY=symbol -D OBJECT=file.o -D HEADER=file.hpp -P traced_object.cmake FILE…
#
# FILEs as one object in which everything but ENTRY is local, and a header with a number of what it holds. Of archives
# among the FILEs what is needed is taken.
set(files "")
set(behind FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(behind)
    list(APPEND files "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(behind TRUE)
  endif()
endforeach()
function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  set(said "${said}" PARENT_SCOPE)
endfunction()

run(${LD} -r --force-group-allocation -o ${OBJECT} ${files})
# objcopy makes no symbol local that gcc marked unique in the program (u): weak ones (V) it does.
run(${NM} ${OBJECT})
string(REGEX MATCHALL " u [^\n]+" unique "${said}")
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
/// Of this build's copy that reports its edges: where it is another one, they are others.
inline constexpr std::uint64_t traced_build = 0x${number};
")
