# One way to declare a library and a test of the house, so that flags are decided in one place.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

# The double-precision judge and the exact conversions rely on IEEE arithmetic as written.
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off)

# Header-only, fmt leaves nothing to ship, but every file that formats compiles it: 2 s more, 7 s under the sanitizers.
# The presets for tests therefore use libfmt.so.
option(EPIFUSE_SHARED_FMT "Link libfmt.so instead of compiling fmt into every file" OFF)
add_library(epifuse_fmt INTERFACE)
if(EPIFUSE_SHARED_FMT)
  target_link_libraries(epifuse_fmt INTERFACE fmt::fmt)
else()
  target_link_libraries(epifuse_fmt INTERFACE fmt::fmt-header-only)
endif()

# epifuse_library(NAME SOURCES file... [LINKS library...] [PRIVATE_LINKS library...])
function(epifuse_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS})
endfunction()

# Adds folders, in order of dependency. One that is missing is said aloud: its tests would be missing too.
macro(epifuse_add_folders)
  foreach(folder ${ARGN})
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
      add_subdirectory(${folder})
    else()
      message(WARNING "${CMAKE_CURRENT_SOURCE_DIR}/${folder} has no CMakeLists.txt")
    endif()
  endforeach()
endmacro()
