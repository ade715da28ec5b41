// run.
#include "tools/commands.h"
namespace epifuse::tools {
Report run(const CommandLine&, Surroundings&) { return failure(ExitCode::machine, "not yet"); }
Report verify(const CommandLine&, Surroundings&) { return failure(ExitCode::machine, "not yet"); }
}
