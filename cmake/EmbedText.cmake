# epifuse_embed(TARGET NAME NAMESPACE ns BASE dir FILES path...)
#
# Compiles text files into TARGET, so that the binary needs none of them on disk. Paths are relative to BASE, which is
# relative to the current source directory unless absolute; they are the keys. The generated pair is NAME.h, NAME.cpp:
#
#   #include "NAME.h"
#   namespace ns {
#   struct EmbeddedFile { std::string_view path, text, sha256; };  // the last in hex
#   std::span<const EmbeddedFile> NAME();                            // sorted by path
#   std::optional<std::string_view> NAME_text(std::string_view path);  // the text under one key
#   }
#
# TARGET is defined in the calling folder, and each table has a namespace of its own. Changing a listed file rebuilds
# the table. This file is also the script that writes it (cmake -P).

if(CMAKE_SCRIPT_MODE_FILE AND CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  # -DOUT=… -DNAME=… -DNAMESPACE=… -DBASE=… -DLIST=FILE, a file with one path a line.
  file(STRINGS "${LIST}" paths)
  list(SORT paths)
  set(rows "")
  set(count 0)
  foreach(path IN LISTS paths)
    # Bytes rather than a literal: no limit on length, no character with a meaning of its own.
    file(READ "${BASE}/${path}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")  # a line for each line
    string(LENGTH "${hex}" length)
    math(EXPR length "${length} / 2")
    string(APPEND data "constexpr unsigned char file_${count}[] = {\n${bytes}0};\n")
    file(SHA256 "${BASE}/${path}" sha256)
    string(APPEND rows
           "    {\"${path}\", {reinterpret_cast<const char*>(file_${count}), ${length}}, \"${sha256}\"},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(WRITE "${OUT}" "#include \"${NAME}.h\"

namespace ${NAMESPACE} {
namespace {
${data}}  // namespace

std::span<const EmbeddedFile> ${NAME}() {
  static const EmbeddedFile files[] = {
${rows}  };
  return files;
}

std::optional<std::string_view> ${NAME}_text(std::string_view path) {
  for (const EmbeddedFile& file : ${NAME}())
    if (file.path == path) return file.text;
  return std::nullopt;
}

}  // namespace ${NAMESPACE}
")
  return()
endif()

set(EPIFUSE_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(epifuse_embed target name)
  cmake_parse_arguments(arg "" "NAMESPACE;BASE" "FILES" ${ARGN})
  if(NOT arg_NAMESPACE OR NOT arg_BASE OR NOT arg_FILES)
    message(FATAL_ERROR "epifuse_embed(${target} ${name}): NAMESPACE, BASE and FILES are needed")
  endif()
  get_filename_component(base "${arg_BASE}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  set(directory "${CMAKE_CURRENT_BINARY_DIR}/embedded")
  set(inputs ${arg_FILES})
  list(TRANSFORM inputs PREPEND "${base}/")
  string(JOIN "\n" lines ${arg_FILES})
  # Written only when they differ, so that configuring again rebuilds nothing.
  file(CONFIGURE OUTPUT "${directory}/${name}.list" CONTENT "${lines}\n" @ONLY)
  file(CONFIGURE OUTPUT "${directory}/${name}.h" @ONLY CONTENT "// Files embedded in the binary: see cmake/EmbedText.cmake.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ${arg_NAMESPACE} {

struct EmbeddedFile {
  std::string_view path, text, sha256;
};
std::span<const EmbeddedFile> ${name}();
std::optional<std::string_view> ${name}_text(std::string_view path);

}  // namespace ${arg_NAMESPACE}
")
  add_custom_command(
    OUTPUT "${directory}/${name}.cpp"
    COMMAND "${CMAKE_COMMAND}" "-DOUT=${directory}/${name}.cpp" "-DNAME=${name}" "-DNAMESPACE=${arg_NAMESPACE}"
            "-DBASE=${base}" "-DLIST=${directory}/${name}.list" -P "${EPIFUSE_EMBED_SCRIPT}"
    DEPENDS ${inputs} "${directory}/${name}.list" "${EPIFUSE_EMBED_SCRIPT}"
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE "${directory}/${name}.cpp")
  target_include_directories(${target} PRIVATE "${directory}")
endfunction()
