# Components of `cmake --install`. Those marked * are installed only if `--component NAME` selects them.
#
#   runtime      the command, its man pages and shell completions
#   agent        rdmawire-agent, its man page, and its systemd unit
#   development  static libraries, headers below include/rdmawire/ with the paths that the sources use, the CMake package
#                and the pkg-config file
#   library   *  the shared library (RDMAWIRE_SHARED)
#   examples  *  sample captures
#   wireshark *  the Wireshark plugin (dissectors/wireshark/CMakeLists.txt)
#   python    *  the Python package (pysdk/CMakeLists.txt)
#
# The CMake package:
#
#   find_package(rdmawire CONFIG REQUIRED)
#   target_link_libraries(program PRIVATE rdmawire::protocol)    # one component
#   target_link_libraries(program PRIVATE rdmawire::rdmawire)    # all components
#   target_link_libraries(program PRIVATE rdmawire::shared)      # all components, as the shared library
#
# `cmake --build DIRECTORY --target uninstall` removes the files of every `cmake --install` from that build directory.

include(CMakePackageConfigHelpers)
option(RDMAWIRE_SHARED "build the shared library" OFF)

get_property(components GLOBAL PROPERTY RDMAWIRE_COMPONENTS)
list(REMOVE_ITEM components rdmawire_cli rdmawire_agent)  # each serves only its own program

add_library(rdmawire_rdmawire INTERFACE)
add_library(rdmawire::rdmawire ALIAS rdmawire_rdmawire)
set_target_properties(rdmawire_rdmawire PROPERTIES EXPORT_NAME rdmawire)
target_link_libraries(rdmawire_rdmawire INTERFACE ${components})

set(development "${components}" rdmawire_rdmawire)
if(RDMAWIRE_SHARED)
  list(TRANSFORM components REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  list(JOIN archives "," archives)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/shared.cpp CONTENT "// A shared library needs a source.\n")
  add_library(rdmawire_shared SHARED ${CMAKE_BINARY_DIR}/shared.cpp)
  # Before version 1.0, a minor version may change the ABI.
  set_target_properties(rdmawire_shared PROPERTIES OUTPUT_NAME rdmawire EXPORT_NAME shared VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  # All objects of the static libraries, followed by the libraries that they use.
  target_link_libraries(rdmawire_shared PRIVATE "$<BUILD_INTERFACE:-Wl,--whole-archive,${archives},--no-whole-archive>")
  foreach(component IN LISTS components)
    target_link_libraries(rdmawire_shared PRIVATE $<BUILD_INTERFACE:${component}>)
  endforeach()
  target_include_directories(rdmawire_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rdmawire>)
  target_compile_features(rdmawire_shared INTERFACE cxx_std_20)
  # The installed headers include headers of these libraries.
  target_link_libraries(rdmawire_shared INTERFACE fmt::fmt tl::expected nlohmann_json::nlohmann_json)
  target_link_options(rdmawire_shared PRIVATE LINKER:-z,defs LINKER:-Bsymbolic-functions)
  list(APPEND development rdmawire_shared)
endif()
install(TARGETS ${development} EXPORT rdmawire
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development EXCLUDE_FROM_ALL)

if(RDMAWIRE_STATIC AND NOT SKBUILD)
  # Debian has these libraries only as shared ones. They are included for hosts that lack them.
  set(private ${CMAKE_INSTALL_LIBDIR}/rdmawire)
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${private})
  set_target_properties(rdmawire PROPERTIES INSTALL_RPATH "$ORIGIN/${up}")
  get_target_property(fmt fmt::fmt LOCATION)
  foreach(library IN ITEMS ${fmt} ${pkgcfg_lib_ISAL_isal} ${pkgcfg_lib_LWIP_lwip})
    get_filename_component(library ${library} REALPATH)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "SONAME +([^\n ]+)" unused "${dynamic}")
    install(PROGRAMS ${library} RENAME ${CMAKE_MATCH_1} DESTINATION ${private} COMPONENT runtime)
  endforeach()
endif()
install(TARGETS rdmawire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
if(TARGET rdmawire-agent)
  install(TARGETS rdmawire-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT agent)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/systemd/rdmawire-agent.service DESTINATION lib/systemd/system
    COMPONENT agent)
endif()

# The target `share` generates man pages and completions in the directory share/ of the build directory.
if(TARGET share)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT runtime
    PATTERN "*rdmawire-agent*" EXCLUDE)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT agent
    FILES_MATCHING PATTERN "*rdmawire-agent*")
endif()

install(FILES ${PROJECT_SOURCE_DIR}/captures/samples/rc-read-loss.pcap.zst
  ${PROJECT_SOURCE_DIR}/captures/samples/rping.pcap ${PROJECT_SOURCE_DIR}/captures/samples/siw-rping.pcap
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT examples EXCLUDE_FROM_ALL)

file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/dissectors/*.hpp ${PROJECT_SOURCE_DIR}/captures/*.hpp
  ${PROJECT_SOURCE_DIR}/replay/*.hpp ${PROJECT_SOURCE_DIR}/conformance/*.hpp)
list(FILTER headers EXCLUDE REGEX "^dissectors/wireshark/|^conformance/agent/|/(testing|test_support)\\.hpp$|_(for_test|testing|state|limits)\\.hpp$")
if(NOT RDMAWIRE_LINUX)
  list(FILTER headers INCLUDE REGEX "^(dissectors|captures|replay/(faults|rewrite|schedule)|conformance/(rules|monitors))/")
endif()
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rdmawire/${folder} COMPONENT development)
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rdmawire)
install(EXPORT rdmawire NAMESPACE rdmawire:: FILE rdmawire-targets.cmake
  DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/rdmawire-config.cmake.in
  ${CMAKE_BINARY_DIR}/rdmawire-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rdmawire-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rdmawire-config.cmake ${CMAKE_BINARY_DIR}/rdmawire-config-version.cmake
  DESTINATION ${package_dir} COMPONENT development)
if(RDMAWIRE_SHARED)
  # The .pc file determines its prefix from its own location, so that the installed tree can be moved.
  file(RELATIVE_PATH RDMAWIRE_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/rdmawire.pc.in ${CMAKE_BINARY_DIR}/rdmawire.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/rdmawire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()
foreach(component runtime agent development)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ${component})
endforeach()

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -D BUILD=${CMAKE_BINARY_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
  VERBATIM)
