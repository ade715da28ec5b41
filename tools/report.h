// What a command has to say at its end, and how it is said: text for people, or one JSON document.
//
// Commands return a Report and print nothing on stdout themselves; so --json is always exactly one document there,
// errors too. Notes go to stderr as they come.
#pragma once

#include <string>
#include <string_view>

#include "base/diagnostics.h"
#include "base/result.h"

namespace epifuse::tools {

enum class ExitCode {
  good = 0,
  user = 1,     // what the user gave cannot work
  usage = 2,    // the command line cannot be read
  machine = 3,  // this machine lacks something
  bug = 4,      // a fault of ours
  wrong = 5,    // the thing that was checked is wrong
};

ExitCode exit_code(ErrorKind kind);

struct Report {
  ExitCode code = ExitCode::good;
  std::string text;         // for stdout, without --json
  bool is_content = false;  // the text is a file's, or bytes, and stays as it is; else control characters are shown
  std::string fields;       // the command's own keys, as the text of a JSON object; empty: none
  Diagnostics diagnostics;  // printed on stderr, or the key "diagnostics"
  std::string error;        // what went wrong besides; empty: nothing
};

Report failure(const Error& error);
Report failure(ExitCode code, std::string message);
// Mistakes of a spec; the code is `user` when an error is among them.
Report failure(Diagnostics diagnostics);

// "epifuse: TEXT" on stderr, at once.
void note(std::string_view text);

// Prints a report and returns the exit code: the report's, or `machine` when stdout cannot be written.
ExitCode print(const Report& report, std::string_view command, bool json);

}  // namespace epifuse::tools
