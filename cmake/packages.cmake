# Packages by CPack: `cpack -G DEB` and `cpack -G RPM` in a build directory of the preset `package`.
# scripts/package builds all packages reproducibly.
#
# packaging/finish.py completes each package's files before CPack packs them: copyright, changelog, licenses of everything
# that is linked or shipped, compressed man pages, modification times.

set(RDMAWIRE_MAINTAINER "The rdmawire authors <maintainers@rdmawire.example.org>" CACHE STRING
  "maintainer of the packages: NAME <ADDRESS>")

set(CPACK_PACKAGE_NAME rdmawire)
set(CPACK_PACKAGE_VENDOR "rdmawire")
set(CPACK_PACKAGE_CONTACT "${RDMAWIRE_MAINTAINER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/finish.cmake)
set(CPACK_RDMAWIRE_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_RDMAWIRE_STATIC ${RDMAWIRE_STATIC})

# The packages. The plugin, the Python module and the libraries depend on the release of the distribution, so the static
# build has only the programs.
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_COMPONENTS_ALL runtime agent)
if(NOT RDMAWIRE_STATIC)
  list(APPEND CPACK_COMPONENTS_ALL development)
  if(RDMAWIRE_SHARED)
    list(APPEND CPACK_COMPONENTS_ALL library)
  endif()
  if(TARGET rdmawire_wireshark)
    list(APPEND CPACK_COMPONENTS_ALL wireshark)
  endif()
  if(TARGET rdmawire_python)
    list(APPEND CPACK_COMPONENTS_ALL python)
  endif()
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
# The sample captures are in the package of the command.
list(APPEND CPACK_COMPONENTS_ALL examples)
set(CPACK_COMPONENT_RUNTIME_GROUP runtime)
set(CPACK_COMPONENT_EXAMPLES_GROUP runtime)
foreach(component agent development library wireshark python)
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENT_${upper}_GROUP ${component})
endforeach()

# rdmawire_package(COMPONENT SECTION DEBIAN-NAME RPM-NAME SUMMARY DESCRIPTION)
macro(rdmawire_package component section name rpm summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${description}")
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}")
  set(CPACK_COMPONENT_GROUP_${upper}_DESCRIPTION "${summary}\n${description}")
  set(CPACK_RPM_${upper}_PACKAGE_NAME ${rpm})
  set(CPACK_RPM_${upper}_PACKAGE_SUMMARY "${summary}")
  set(CPACK_RPM_${upper}_PACKAGE_DESCRIPTION "${description}")
endmacro()

rdmawire_package(runtime net rdmawire rdmawire "RDMA protocol analyzer, conformance tester and fuzzer"
"Decodes and verifies RDMA packets on the wire: native InfiniBand, RoCEv1,
RoCEv2 and iWARP. Follows connections and messages in captures and reports
losses, retransmissions and violations of the specification. Replays captures
and tests devices for conformance.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "rdmawire-agent")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "rdmawire-wireshark, python3-rdmawire, qemu-system-x86")

rdmawire_package(agent net rdmawire-agent rdmawire-agent "RDMA verbs by remote control, for rdmawire"
"Runs next to an RDMA device under test and performs verbs operations for a
controller such as the command certify of rdmawire. It is one static program,
drivers included, and needs no other package.")

rdmawire_package(wireshark net rdmawire-wireshark rdmawire-wireshark "RDMA analysis plugin for Wireshark and tshark"
"Adds the analysis of rdmawire to Wireshark: verified CRCs, paired queue pairs,
reassembled messages, retransmissions with their causes and violations of the
specification. Contains a profile with columns for RDMA.")

rdmawire_package(library libs librdmawire${soversion} librdmawire${soversion} "RDMA protocol analyzer: shared library"
"Decodes, encodes and analyzes RDMA packets: native InfiniBand, RoCEv1, RoCEv2
and iWARP.")
file(WRITE ${CMAKE_BINARY_DIR}/shlibs "librdmawire ${soversion} librdmawire${soversion} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/packaging/debian/library/triggers ${CMAKE_BINARY_DIR}/shlibs)

rdmawire_package(development libdevel librdmawire-dev librdmawire-devel "RDMA protocol analyzer: development files"
"Contains the headers, the static libraries, the CMake package and the
pkg-config file of librdmawire.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "librdmawire${soversion} (= ${PROJECT_VERSION})")
foreach(package libfmt-dev libexpected-dev nlohmann-json3-dev libpugixml-dev libisal-dev libibverbs-dev liblwip-dev
    libpcap-dev libssl-dev libzstd-dev zlib1g-dev)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", ${package}")
endforeach()

rdmawire_package(python python python3-rdmawire python3-rdmawire "RDMA protocol analyzer: Python 3 package"
"Reads, builds, explains, replays and certifies RDMA packets from Python.
Captures become NumPy arrays and Arrow tables; devices are tested with pytest.")
if(TARGET rdmawire_python)
  # The extension module supports one minor version of Python.
  get_target_property(minor rdmawire_python PYTHON_MINOR)
  math(EXPR next "${minor} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.${minor}~), python3 (<< 3.${next})")
endif()
# The package scripts compile the Python files after the installation, and remove the compiled files.
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/packaging/debian/python/postinst ${PROJECT_SOURCE_DIR}/packaging/debian/python/prerm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "rdmawire, python3-numpy")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-hypothesis, python3-matplotlib, python3-pytest, python3-scapy")

# Settings of Debian packages.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${RDMAWIRE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

# Settings of RPM packages.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_PACKAGE_GROUP "Applications/Internet")
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_COMPRESSION_TYPE xz)
set(CPACK_RPM_PACKAGE_AUTOREQ ON)
set(CPACK_RPM_PACKAGE_AUTOPROV ON)
# These system directories belong to other packages.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/man /usr/share/man/man1 /usr/share/bash-completion
  /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions /usr/share/zsh/vendor-completions
  /usr/share/fish /usr/share/fish/vendor_completions.d /usr/lib64 /usr/share/doc /usr/lib/systemd
  /usr/lib/systemd/system)
# These definitions make packages reproducible: they depend only on the commit. Libraries in /usr/lib64/rdmawire are
# private.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _buildhost reproducible
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define source_date_epoch_from_changelog 0
%define _build_id_links none
%define __provides_exclude_from ^/usr/lib64/rdmawire/.*$
%define __requires_exclude ^lib(fmt|isal|lwip)[.]so.*$")
set(CPACK_RPM_RUNTIME_PACKAGE_SUGGESTS rdmawire-agent)

include(CPack)
