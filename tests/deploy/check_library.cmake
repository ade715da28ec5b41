# libepifuse_runtime.so exports the functions of its header and nothing else, needs the C library and nothing else to
# start, says its major version in its soname, and stays small. Usage: cmake -DNM=nm -DREADELF=readelf -DSTRIP=strip
# -DLIBRARY=libepifuse_runtime.so -DSTRIPPED=scratch.so -DHEADER=deploy/epifuse_runtime.h -P check_library.cmake
set(most_bytes 6000000)  # several times a release build's, for builds with little optimisation

execute_process(COMMAND "${NM}" -D --defined-only "${LIBRARY}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[A-Za-z] [^\n]+" exported "${symbols}")
list(TRANSFORM exported REPLACE "^[A-Za-z] " "")
list(SORT exported)
file(READ "${HEADER}" header)
string(REGEX MATCHALL "EPIFUSE(_RUNTIME)?_API [^(;]*[ *]epifuse_[a-z_]+\\(" declared "${header}")
list(TRANSFORM declared REPLACE ".*[ *](epifuse_[a-z_]+)\\($" "\\1")
list(SORT declared)
if(NOT declared OR NOT exported STREQUAL declared)
  message(FATAL_ERROR "exported: ${exported}\ndeclared: ${declared}")
endif()

execute_process(COMMAND "${READELF}" -d "${LIBRARY}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
if(NOT dynamic MATCHES "SONAME[^\n]*\\[libepifuse_runtime\\.so\\.[0-9]+\\]")
  message(FATAL_ERROR "no soname libepifuse_runtime.so.MAJOR:\n${dynamic}")
endif()
# libfmt is linked in builds for development alone (EPIFUSE_SHARED_FMT), the sanitizers' libraries in theirs.
string(REGEX MATCHALL "NEEDED[^\n]*\\[[^]\n]*\\]" needed "${dynamic}")
foreach(line IN LISTS needed)
  if(NOT line MATCHES "\\[(lib(c|m|dl|pthread|fmt|asan|ubsan)|ld-linux-[a-z0-9_-]+)\\.so\\.[0-9]+\\]")
    message(FATAL_ERROR "the library needs what a machine may not have: ${line}")
  endif()
endforeach()

if(NOT dynamic MATCHES "libasan")
  execute_process(COMMAND "${STRIP}" -o "${STRIPPED}" "${LIBRARY}" COMMAND_ERROR_IS_FATAL ANY)
  file(SIZE "${STRIPPED}" bytes)
  message("stripped: ${bytes} bytes")
  if(bytes GREATER most_bytes)
    message(FATAL_ERROR "the stripped library has ${bytes} bytes, more than ${most_bytes}")
  endif()
endif()
