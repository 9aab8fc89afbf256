# Puts the page's template together, with everything it needs inside, and writes it as C++.
#
#   cmake -D PAGE=<page.html> -D STYLES=<files> -D LICENSES=<file or nothing> -D LIBRARIES=<files> -D SCRIPTS=<files>
#         -D HEADER=<template.hpp> -D NAMESPACE=<of page_template()> -D OUT=<template.cpp> -P embed.cmake
#
# In the page, @name@ on a line of its own stands for what is put in here; {{name}} for what fill_page() puts in.

cmake_minimum_required(VERSION 3.25)

function(add_scripts variable)
  set(all "")
  foreach(file IN LISTS ARGN)
    file(READ ${file} text)
    # Either would end or change the element that the script stands in.
    string(REPLACE "</script" "<\\/script" text "${text}")
    string(REPLACE "<!--" "<\\!--" text "${text}")
    string(APPEND all "${text}\n")
  endforeach()
  set(${variable} "${all}" PARENT_SCOPE)
endfunction()

# base64_of_hex: as RFC 4648, for the hash that lets this script run and no other.
function(base64_of_hex variable hex)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  string(LENGTH "${hex}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${hex}000000" ${at} 6 three_bytes)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${three_bytes} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 letter)
      string(APPEND text "${letter}")
    endforeach()
    math(EXPR at "${at} + 6")
  endwhile()
  math(EXPR over "${at} - ${length}")
  if(over GREATER 0)
    math(EXPR missing "${over} / 2")
    string(LENGTH "${text}" letters)
    math(EXPR letters "${letters} - ${missing}")
    string(SUBSTRING "${text}" 0 ${letters} text)
    string(REPEAT "=" ${missing} padding)
    string(APPEND text "${padding}")
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

file(READ ${PAGE} page)
set(style "")
foreach(file IN LISTS STYLES)
  file(READ ${file} text)
  string(APPEND style "${text}")
endforeach()
set(licenses "")
if(LICENSES)
  file(READ ${LICENSES} licenses)
endif()
add_scripts(library_script ${LIBRARIES})
add_scripts(own_script ${SCRIPTS})
set(script "\n${library_script}\"use strict\";(() => {\n${own_script}})();\n")
string(SHA256 hash "${script}")
base64_of_hex(hash "${hash}")

string(REPLACE "@licenses@" "${licenses}" page "${page}")
string(REPLACE "@hash@" "${hash}" page "${page}")
string(REPLACE "@style@" "${style}" page "${page}")
string(REPLACE "@script@" "${script}" page "${page}")

file(WRITE ${OUT}.html "${page}")
file(READ ${OUT}.html bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "// Made by embed.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {
constexpr unsigned char bytes[] = {
${bytes}};
}  // namespace

std::string_view page_template() { return {reinterpret_cast<const char*>(bytes), sizeof bytes}; }

}  // namespace ${NAMESPACE}
")
