#include "jit/request_record.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/version.h"

namespace epifuse::jit {
namespace {

using Json = nlohmann::ordered_json;

// How every line begins. In a line's texts quotes are escaped, so it is nowhere else, unless a line was cut short and
// the next one written behind it.
constexpr std::string_view beginning = R"({"record":)";

// What a line must have, each under its key, by kind; and the kinds in words.
bool read(const Json& json, const char* key, std::string& into) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return false;
  into = found->get<std::string>();
  return true;
}
bool read(const Json& json, const char* key, std::set<std::string>& into) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return false;
  for (const Json& name : *found) {
    if (!name.is_string()) return false;
    into.insert(name.get<std::string>());
  }
  return true;
}
bool read(const Json& json, const char* key, std::map<std::string, std::string>& into) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return false;
  for (const auto& [name, text] : found->items()) {
    if (!text.is_string()) return false;
    into[name] = text.get<std::string>();
  }
  return true;
}
bool read(const Json& json, const char* key, std::map<std::string, int64_t>& into) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return false;
  for (const auto& [name, value] : found->items()) {
    const auto number = json_integer(value);
    if (!number) return false;
    into[name] = *number;
  }
  return true;
}
bool read(const Json& json, const char* key, bool& into) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_boolean()) return false;
  into = found->get<bool>();
  return true;
}
std::string_view wanted(const std::string&) { return "text"; }
std::string_view wanted(const std::set<std::string>&) { return "list of texts"; }
std::string_view wanted(const std::map<std::string, std::string>&) { return "object of texts"; }
std::string_view wanted(const std::map<std::string, int64_t>&) { return "object of whole numbers"; }
std::string_view wanted(bool) { return "truth value"; }

}  // namespace

std::string RecordedRequest::to_json() const {
  const Json json = {{"record", record_version}, {"spec", spec},  {"kernel", kernel}, {"dims", dims},
                     {"without", left_out},      {"taps", taps},  {"target", target}, {"schedule", schedule},
                     {"unfused", unfused},       {"files", files}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<RecordedRequest> RecordedRequest::parse(std::string_view line) {
  const Result<Json> whole = read_json(line);
  if (!whole) return user_error(fmt::format("this is {}", whole.error().message));
  const Json& json = *whole;
  if (!json.is_object()) return user_error("this is no JSON object");
  const auto stored = json.find("record");
  if (stored == json.end() || !stored->is_number_integer()) return user_error("this is no recorded request");
  if (*stored != record_version)
    return user_error(
        fmt::format("the record has version {}, and this Epifuse reads {}", stored->dump(), record_version));
  RecordedRequest request;
  std::string wrong;
  const auto need = [&](const char* key, auto& into) {
    if (wrong.empty() && !read(json, key, into)) wrong = wrong_member(json, key, wanted(into));
  };
  need("spec", request.spec);
  need("kernel", request.kernel);
  need("dims", request.dims);
  need("without", request.left_out);
  need("taps", request.taps);
  need("target", request.target);
  need("schedule", request.schedule);
  need("unfused", request.unfused);
  need("files", request.files);
  if (!wrong.empty()) return user_error(wrong);
  if (!request.files.contains(request.spec)) return user_error("the text of the spec is missing");
  return request;
}

RecordedRequest record_of(const Program& program, const std::map<std::string, int64_t>& dims, const std::string& kernel,
                          const CompilerOptions& options) {
  namespace fs = std::filesystem;
  RecordedRequest request;
  const fs::path main = program.main().source->name;
  request.spec = main.filename().generic_string();
  for (const Program::Unit& unit : program.units) {
    const SourceFile& file = *unit.tree.source;
    if (is_library_file(file.name)) continue;
    // The specs keep their places to each other, and nothing tells where they were.
    const fs::path path = fs::path(file.name).lexically_relative(main.parent_path());
    request.files[main.has_parent_path() && !path.empty() ? path.generic_string() : file.name] = file.text;
  }
  request.kernel = kernel;
  request.dims = dims;
  request.left_out = options.left_out;
  request.taps = options.taps;
  request.target = options.target.name;
  request.schedule = options.schedule;
  return request;
}

Result<Record> parse_record(std::string_view text) {
  Record record;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const size_t last = line.rfind(beginning);
    const bool is_torn = !Json::accept(line);
    if (is_torn) record.torn.push_back(number);
    if (is_torn && (last == 0 || last == std::string_view::npos || !Json::accept(line.substr(last)))) continue;
    Result<RecordedRequest> request = RecordedRequest::parse(is_torn ? line.substr(last) : line);
    if (!request) return user_error(fmt::format("line {}: {}", number, request.error().message));
    record.requests.push_back(*std::move(request));
  }
  if (record.requests.empty())
    return user_error(record.torn.empty() ? "it has no requests" : "it is no record: no line of it can be read");
  return record;
}

Status check_goes_on(FileSystem& disk, const std::string& path) {
  const uint64_t size = disk.target_status(path).size;
  if (size == 0) return {};
  const Result<std::string> first = disk.read_part(path, 0, std::min<uint64_t>(size, beginning.size()));
  // One that was cut short in its first line is a record too.
  if (!first || beginning.starts_with(*first)) return {};
  return user_error(fmt::format("'{}' is no record of requests, and nothing is added to it", path));
}

bool RequestRecorder::ends_in_line() const {
  const uint64_t size = disk_.target_status(path_).size;
  if (size == 0) return true;
  const Result<std::string> last = disk_.read_part(path_, size - 1, 1);
  return !last || *last == "\n";
}

RequestRecorder::RequestRecorder(FileSystem& disk, std::string path, LogSink log)
    : disk_(disk), path_(std::move(path)), log_(std::move(log)) {}

void RequestRecorder::note(const Program& program, const std::map<std::string, int64_t>& dims,
                           const std::string& kernel, const CompilerOptions& options, bool unfused) {
  if (!wanted()) return;
  RecordedRequest request = record_of(program, dims, kernel, options);
  request.unfused = unfused;
  const std::string line = request.to_json() + "\n";
  const std::lock_guard<std::mutex> guard(mutex_);
  if (!noted_.insert(line).second) return;
  Status written = noted_.size() == 1 ? check_goes_on(disk_, path_) : Status();
  if (!written) is_none_ = true;
  if (!is_none_) written = disk_.append(path_, (ends_in_line() ? "" : "\n") + line);
  if (written || std::exchange(warned_, true)) return;
  if (log_) log_(LogLevel::warn, fmt::format("requests are not recorded: {}", written.error().message));
}

}  // namespace epifuse::jit
