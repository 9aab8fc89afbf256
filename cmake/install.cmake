# What `cmake --install` puts where: the command, the libraries, their headers under include/rdmawire/ with the paths
# that the sources use, and a CMake package:
#
#   find_package(rdmawire CONFIG REQUIRED)
#   target_link_libraries(program PRIVATE rdmawire::protocol)    # one component
#   target_link_libraries(program PRIVATE rdmawire::rdmawire)    # all of them

include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY RDMAWIRE_COMPONENTS)
list(REMOVE_ITEM components rdmawire_cli rdmawire_agent)  # serve one program alone

add_library(rdmawire_rdmawire INTERFACE)
add_library(rdmawire::rdmawire ALIAS rdmawire_rdmawire)
set_target_properties(rdmawire_rdmawire PROPERTIES EXPORT_NAME rdmawire)
target_link_libraries(rdmawire_rdmawire INTERFACE ${components})

install(TARGETS ${components} rdmawire_rdmawire EXPORT rdmawire
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)

# rdmawire is what the command's target is called, once there is one.
if(TARGET rdmawire)
  install(TARGETS rdmawire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()
install(TARGETS rdmawire-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)

file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/dissectors/*.hpp ${PROJECT_SOURCE_DIR}/captures/*.hpp
  ${PROJECT_SOURCE_DIR}/replay/*.hpp ${PROJECT_SOURCE_DIR}/conformance/*.hpp)
list(FILTER headers EXCLUDE REGEX "^dissectors/wireshark/|^conformance/agent/|/(testing|test_support)\\.hpp$|_(for_test|testing|state|limits)\\.hpp$")
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
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
