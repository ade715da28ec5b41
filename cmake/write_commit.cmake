# Script of epifuse_stamp_commit: writes HEADER with the commit that SOURCE_DIR is at, "-dirty" appended when tracked
# files differ from it. Outside a checkout of ours (a release archive inside someone else's repository, say) it says
# "unknown", as base/version.h promises.
set(commit "unknown")
if(EXISTS "${SOURCE_DIR}/.git")
  execute_process(
    COMMAND git -C "${SOURCE_DIR}" describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed AND answer)
    set(commit "${answer}")
  endif()
endif()

set(text "#define EPIFUSE_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS "${HEADER}")
  file(READ "${HEADER}" old)
endif()
if(NOT text STREQUAL old)
  file(WRITE "${HEADER}" "${text}")
endif()
