// Toolchain: CUDA text to cubin. The interface is this small so that tests can put a recording fake in its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compiler/toolchain/phase_times.h"

namespace epifuse::toolchain {

// A text that `#include "path"` finds. Nothing is ever included from the disk.
struct Header {
  std::string_view path;  // text that lives as long as the program and ends with a zero, as the templates' does
  std::string_view text;
  std::string_view sha256 = {};  // of the text, in hex, where the build knows it: the artifact key then holds this
};

struct CompileRequest {
  std::string program_name;  // a word for messages, the kernel's name; it does not reach the cubin
  std::string source;
  std::vector<Header> headers;
  std::string arch;                // "sm_90a"
  std::vector<std::string> flags;  // beyond those that every compile gets (nvrtc_flags.h)
};

// What the assembler said about one kernel.
struct EntryFacts {
  std::string name;
  int registers = 0;  // per thread
  int stack_bytes = 0;
  int spill_store_bytes = 0, spill_load_bytes = 0;
  bool wgmma_serialized = false;
};

struct CompileOutcome {
  std::string cubin, ptx;
  std::string log;                  // of compiler and assembler, as they wrote it
  std::vector<EntryFacts> entries;  // in the log's order
  int registers = 0;                // the largest over the entries
  int spill_bytes = 0;              // stores and loads together, the sum over the entries
  bool wgmma_serialized = false;    // of any entry
  std::vector<std::string> notes;   // what a user should know of the above, in our words
  double milliseconds = 0;
  PhaseTimes phases;
};

class Toolchain {
 public:
  virtual ~Toolchain() = default;

  // What tells this build of the compiler, with the flags it gets, from every other: part of the artifact key. An error
  // (environment) says that there is no usable compiler, where one was looked for, and what to do. Cheap: nothing is
  // loaded.
  virtual Result<std::string> identity() = 0;

  // Thread-safe. An error of kind user means that the compiler refused the text, and holds its log; one of kind
  // environment that the compiler itself could not be used.
  virtual Result<CompileOutcome> compile(const CompileRequest& request) = 0;
};

}  // namespace epifuse::toolchain
