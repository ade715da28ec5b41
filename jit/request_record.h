// Requests of a real run, for `epifuse prebuild --from-record`: one line of JSON for each kernel that was asked for,
// with the texts of the spec, so that whoever builds needs no file of the machine that recorded.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "base/result.h"
#include "compiler/compiler.h"

namespace epifuse::jit {

struct RecordedRequest {
  std::string spec;                          // the main file, a key of `files`
  std::map<std::string, std::string> files;  // texts by path from the main file's folder; none of the library
  std::string kernel;
  std::map<std::string, int64_t> dims;  // of every `dim`
  std::set<std::string> left_out, taps;
  std::string target;
  std::string schedule;  // that the caller named; empty: none
  bool unfused = false;  // a kernel for each operation

  std::string to_json() const;  // one line, without its end
  // Errors (user): no JSON, another version, a field that is missing or of the wrong kind.
  static Result<RecordedRequest> parse(std::string_view line);
};

RecordedRequest record_of(const Program& program, const std::map<std::string, int64_t>& dims, const std::string& kernel,
                          const CompilerOptions& options);

// A file, line by line.
struct Record {
  std::vector<RecordedRequest> requests;  // at least one
  std::vector<int>
      torn;  // numbers, from 1, of lines of which a beginning is there: a process was killed, the disk full
};
// Errors (user): a whole line that is none of a record, which is named; no request at all.
Result<Record> parse_record(std::string_view text);

// An error (user) when a file that a record is to be appended to is none: it is not empty, and begins with no request.
Status check_goes_on(FileSystem& disk, const std::string& path);

// Appends to a file: each request once in the life of the recorder, each line at once, so that many processes may share
// the file. Where the last line was cut short, a new one is begun. A file that cannot be written, or is no record,
// costs one warning. Thread-safe.
class RequestRecorder {
 public:
  // `path` empty: nothing is recorded. `disk` must outlive this.
  RequestRecorder(FileSystem& disk, std::string path, LogSink log);

  void note(const Program& program, const std::map<std::string, int64_t>& dims, const std::string& kernel,
            const CompilerOptions& options, bool unfused);
  bool wanted() const { return !path_.empty(); }

 private:
  bool ends_in_line() const;

  FileSystem& disk_;
  const std::string path_;
  const LogSink log_;
  std::mutex mutex_;  // guards what follows
  std::set<std::string> noted_;
  bool is_none_ = false;  // the file is something else
  bool warned_ = false;
};

}  // namespace epifuse::jit
