set(RDMAWIRE_CROSS aarch64-linux-gnu)
set(RDMAWIRE_DEBIAN_ARCH arm64)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/debian-cross.cmake)
