# CPack runs this script after it has staged the files of every package and before it packs them.

if(NOT CPACK_GENERATOR MATCHES "^(DEB|RPM)$")
  return()
endif()
file(GLOB groups LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(group IN LISTS groups)
  get_filename_component(component ${group} NAME)
  string(TOUPPER ${component} upper)
  if(CPACK_GENERATOR STREQUAL DEB)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  else()
    set(package ${CPACK_RPM_${upper}_PACKAGE_NAME})
  endif()
  set(static "")
  if(CPACK_RDMAWIRE_STATIC)
    set(static --static)
  endif()
  execute_process(
    COMMAND /usr/bin/python3 ${CPACK_RDMAWIRE_SOURCE}/packaging/finish.py ${group} --component ${component}
            --package ${package} --version ${CPACK_PACKAGE_VERSION} --maintainer ${CPACK_PACKAGE_CONTACT}
            --format ${CPACK_GENERATOR} ${static}
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
