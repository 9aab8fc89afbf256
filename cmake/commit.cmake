# Writes a header with the commit of SOURCE and its date to OUTPUT. They are from git or, in an archive, from
# cmake/commit.txt.
set(commit "unknown ")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} log -1 "--format=%H %cs" OUTPUT_VARIABLE commit ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(commit "unknown ")
  endif()
else()
  file(STRINGS ${SOURCE}/cmake/commit.txt line LIMIT_COUNT 1)
  if(line MATCHES "^[0-9a-f]+ ")
    set(commit ${line})
  endif()
endif()
string(REGEX MATCH "^([^ ]*) (.*)$" matched "${commit}")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once
/// The commit of this build and its date (YYYY-MM-DD), or \"unknown\" and nothing.
#define RDMAWIRE_COMMIT \"${CMAKE_MATCH_1}\"
#define RDMAWIRE_COMMIT_DATE \"${CMAKE_MATCH_2}\"
")
