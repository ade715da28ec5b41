// The compiler with neither cache, runtime nor driver: a machine without a GPU compiles for any GPU.
#include <memory>

#include "base/diagnostics.h"
#include "base/target.h"
#include "compiler/parser/parser.h"

int main() {
  epifuse::Diagnostics diagnostics;
  const auto file = std::make_shared<const epifuse::SourceFile>(epifuse::SourceFile{"empty.epi", "# nothing\n"});
  epifuse::parse(file, diagnostics);
  return epifuse::parse_target("sm_90a") ? 0 : 1;
}
