# Static linking, for programs that run on hosts without the libraries of the build host:
#
#   RDMAWIRE_STATIC        the command links a static library wherever the system has one. Shared objects cannot, because
#                          Debian's static libraries are not position-independent
#   RDMAWIRE_STATIC_AGENT  rdmawire-agent is one static program, glibc included
#
# Include this file before the first find_library.

option(RDMAWIRE_STATIC "link static libraries where the system has them" OFF)
option(RDMAWIRE_STATIC_AGENT "link rdmawire-agent as a static program" OFF)

if(SKBUILD)  # pip builds on every distribution, also on those without static libraries
  find_library(RDMAWIRE_ARCHIVE_IBVERBS NAMES libibverbs.a)
  find_library(RDMAWIRE_ARCHIVE_LIBC NAMES libc.a)
  if(RDMAWIRE_STATIC_AGENT AND NOT (RDMAWIRE_ARCHIVE_IBVERBS AND RDMAWIRE_ARCHIVE_LIBC))
    message(STATUS "rdmawire-agent is no static program: this system has no static libibverbs or no static C library")
    set(RDMAWIRE_STATIC_AGENT OFF)
  endif()
endif()

if(RDMAWIRE_STATIC)
  list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()

# rdmawire_link_static_verbs(TARGET): links libibverbs.a with the drivers of all devices, because a static libibverbs
# cannot load drivers at run time.
function(rdmawire_link_static_verbs target)
  pkg_check_modules(VERBS_STATIC REQUIRED QUIET libibverbs)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(archives "")
  list(REMOVE_DUPLICATES VERBS_STATIC_STATIC_LIBRARIES)
  foreach(name IN LISTS VERBS_STATIC_STATIC_LIBRARIES)
    find_library(RDMAWIRE_ARCHIVE_${name} NAMES ${name} HINTS ${VERBS_STATIC_LIBDIR} REQUIRED)
    list(APPEND archives ${RDMAWIRE_ARCHIVE_${name}})
  endforeach()
  list(JOIN archives "," archives)
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/static/verbs.cpp)
  # The linker includes the object file that registers the drivers only if one of its symbols is needed.
  target_link_options(${target} INTERFACE LINKER:-u,rdmawire_static_verbs)
  target_link_libraries(${target} PRIVATE "$<LINK_GROUP:RESCAN,${archives}>")
endfunction()

# rdmawire_link_static_pcap(TARGET): links libpcap.a without its D-Bus monitor, which would require libdbus and
# libsystemd.
function(rdmawire_link_static_pcap target)
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/static/pcap.cpp)
  # Makes the linker use these functions before it finds those of libpcap.a.
  target_link_options(${target} INTERFACE LINKER:-u,dbus_create)
endfunction()
