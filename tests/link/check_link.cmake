# -DPROGRAM=FILE -DMAP=FILE -DFORBIDDEN=REGEX: fails when the program's link took a forbidden archive, when it needs the
# driver or NVRTC to start, or when it does not run.
file(READ "${MAP}" map)
string(REGEX MATCH "${FORBIDDEN}|lib(cuda|cudart|nvrtc)\\.(so|a)" found "${map}")
if(found)
  message(FATAL_ERROR "${PROGRAM} links ${found}")
endif()

execute_process(COMMAND readelf -d "${PROGRAM}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
if(NOT dynamic MATCHES "NEEDED.*libc\\.so")
  message(FATAL_ERROR "${PROGRAM}: its dynamic section could not be read")
endif()
string(REGEX MATCH "NEEDED[^\n]*(libcuda|libnvrtc|libepifuse)[^\n]*" found "${dynamic}")
if(found)
  message(FATAL_ERROR "${PROGRAM} needs a library to start: ${found}")
endif()

execute_process(COMMAND "${PROGRAM}" RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
