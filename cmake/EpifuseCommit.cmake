# epifuse_stamp_commit(SOURCE): defines EPIFUSE_COMMIT for one source file of the current folder. Git is asked at every
# build, not only at configure, and the header is rewritten only when the answer changes: a commit recompiles that one
# file and nothing else.
set(EPIFUSE_WRITE_COMMIT "${CMAKE_CURRENT_LIST_DIR}/write_commit.cmake")

function(epifuse_stamp_commit source)
  set(header "${CMAKE_CURRENT_BINARY_DIR}/commit.h")
  add_custom_target(epifuse_commit
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}" "-DHEADER=${header}" -P "${EPIFUSE_WRITE_COMMIT}"
    BYPRODUCTS "${header}"
    COMMENT ""
    VERBATIM)
  set_source_files_properties("${source}" PROPERTIES
    COMPILE_OPTIONS "-include;${header}"
    OBJECT_DEPENDS "${header}")
endfunction()
