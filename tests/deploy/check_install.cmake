# Installs the component `runtime`, and builds the programs of docs/runtime_library.md against it and nothing else.
file(REMOVE_RECURSE "${PREFIX}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${code}: ${output}")
  endif()
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --component runtime --prefix "${PREFIX}")
set(flags "-I${PREFIX}/include/epifuse" "-I${STUBS}" "-L${PREFIX}/lib" "-L${DRIVER}" -lepifuse_runtime -lcuda
  # What the fake driver was instrumented with is not in these programs.
  -Wl,--allow-shlib-undefined)
run("${CC}" "${PROGRAMS}/runtime_library_example_c.c" ${flags} -o "${PREFIX}/serve_c")
run("${CXX}" -std=c++17 "${PROGRAMS}/runtime_library_example_cpp.cpp" ${flags} -o "${PREFIX}/serve_cpp")
foreach(file bin/run_bundle lib/libepifuse_runtime.so.0)
  if(NOT EXISTS "${PREFIX}/${file}")
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
