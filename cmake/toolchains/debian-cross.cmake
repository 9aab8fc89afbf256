# Cross-compiles for another Debian architecture with Debian's cross compiler. Headers and libraries are in the
# directory that scripts/cross-sysroot creates. A toolchain file sets RDMAWIRE_CROSS (GNU name), CMAKE_SYSTEM_PROCESSOR
# and RDMAWIRE_DEBIAN_ARCH, then includes this file.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${RDMAWIRE_CROSS}-gcc)
set(CMAKE_CXX_COMPILER ${RDMAWIRE_CROSS}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${RDMAWIRE_CROSS})

set(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../../build/sysroot-${RDMAWIRE_DEBIAN_ARCH})
cmake_path(NORMAL_PATH CMAKE_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/${RDMAWIRE_CROSS}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})

# qemu's user mode runs programs of the build and the tests, with the libraries of the same directory.
find_program(RDMAWIRE_QEMU NAMES qemu-${CMAKE_SYSTEM_PROCESSOR} qemu-${CMAKE_SYSTEM_PROCESSOR}-static)
if(RDMAWIRE_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${RDMAWIRE_QEMU} -L ${CMAKE_SYSROOT})
endif()
