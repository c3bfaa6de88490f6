# Run at every build: writes OUTPUT (src/version.h's functions) when version, commit or build type have changed, so
# that a new commit costs one small compilation and nothing else does.
# -DOUTPUT= -DSOURCE_DIR= -DVERSION= -DBUILD_TYPE=

set(commit "unknown")
find_program(GIT git)
if(GIT)
  set(git ${GIT} -c safe.directory=${SOURCE_DIR} -C ${SOURCE_DIR})
  execute_process(COMMAND ${git} rev-parse HEAD OUTPUT_VARIABLE head ERROR_QUIET RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0)
    set(commit ${head})
    # Results, documents and scripts that differ from the commit do not change the program.
    execute_process(COMMAND ${git} status --porcelain -- CMakeLists.txt cmake src reference kernels cli
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()

file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
[[#include "version.h"

namespace flashbench {

std::string_view tool_version() { return "@VERSION@"; }
std::string_view tool_commit() { return "@commit@"; }
std::string_view tool_build_type() { return "@BUILD_TYPE@"; }

}  // namespace flashbench
]])
