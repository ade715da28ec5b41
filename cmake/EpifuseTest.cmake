# epifuse_test(NAME SOURCES file... [LINKS library...] [LABELS label...]): a Catch2 program that ctest runs.
#
# Labels: gpu     needs a device, and is skipped, visibly, where there is none
#         nvrtc   compiles CUDA; tools/check prints the seconds of these together
#         slow    takes long under the sanitizers
#         house   needs no build: format, layers
#         long    wants minutes or a quiet machine (epifuse_long_tests): run by `ctest --preset dev -C long -L long` alone
# Under the sanitizers everything without a label runs again.
find_package(Catch2 3 QUIET)
if(NOT Catch2_FOUND)
  find_package(Catch2 2 REQUIRED)
endif()

if(Catch2_VERSION VERSION_GREATER_EQUAL 3)
  set(EPIFUSE_CATCH Catch2::Catch2WithMain)
  set(EPIFUSE_CATCH_DEFINITION EPIFUSE_CATCH2_V3)
else()
  # Version 2 has no library with a main: it is compiled once, here.
  add_library(epifuse_catch_main STATIC "${PROJECT_SOURCE_DIR}/tests/support/catch_main.cpp")
  target_link_libraries(epifuse_catch_main PUBLIC Catch2::Catch2)
  target_include_directories(epifuse_catch_main PUBLIC "${PROJECT_SOURCE_DIR}")
  set(EPIFUSE_CATCH epifuse_catch_main)
  set(EPIFUSE_CATCH_DEFINITION EPIFUSE_CATCH2_V2)
endif()

function(epifuse_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} ${EPIFUSE_CATCH})
  target_compile_definitions(${name} PRIVATE ${EPIFUSE_CATCH_DEFINITION}
                             EPIFUSE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  if("gpu" IN_LIST arg_LABELS)
    # A program's own status 77 would read as skipped, so any failure of it becomes 1.
    add_test(NAME ${name} COMMAND sh -c "[ -e /dev/nvidiactl ] || exit 77; \"$0\" || exit 1" $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 900)
endfunction()

# epifuse_long_tests(NAME): the hidden cases of an epifuse_test that are tagged [long], as a ctest of its own, which runs
# only where it is asked for.
function(epifuse_long_tests name)
  add_test(NAME ${name}_long COMMAND ${name} "[long]" CONFIGURATIONS long)
  set_tests_properties(${name}_long PROPERTIES LABELS long TIMEOUT 1800 RUN_SERIAL TRUE)
endfunction()
