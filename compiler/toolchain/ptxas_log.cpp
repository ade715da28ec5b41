// Reads the log line by line. Unknown lines are passed over: the assembler's words change with its version.
#include "compiler/toolchain/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace epifuse::toolchain {
namespace {

// The text between the first `open` and the next `close` behind it.
std::optional<std::string> between(std::string_view line, std::string_view open, std::string_view close) {
  const size_t begin = line.find(open);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t start = begin + open.size(), end = line.find(close, start);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(start, end - start));
}

// The number that stands directly before `words`: "16 bytes spill stores".
std::optional<int> number_before(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  const auto [end, failed] = std::from_chars(line.data() + begin, line.data() + at, value);
  if (failed != std::errc() || end == line.data() + begin) return std::nullopt;
  return value;
}

class Reader {
 public:
  explicit Reader(CompileOutcome& outcome) : outcome_(outcome) {}

  void read() {
    std::string_view rest = outcome_.log;
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      read_line(rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    summarise();
  }

 private:
  void read_line(std::string_view line) {
    if (const auto name = between(line, "Compiling entry function '", "'")) {
      outcome_.entries.push_back({.name = *name});
    } else if (line.find("wgmma.mma_async instructions are serialized") != std::string_view::npos) {
      // This line comes before the entry's own.
      serialized_.push_back({between(line, "function '", "'").value_or(""),
                             between(line, "serialized due to ", " in ").value_or("an unknown reason")});
    } else if (line.find("'setmaxnreg' ignored") != std::string_view::npos) {
      note_once(fmt::format("setmaxnreg has no effect: {}", line.substr(line.find("ignored"))));
    } else if (line.find("warpgroup.wait is injected") != std::string_view::npos) {
      note_once(
          fmt::format("the assembler added a wait for wgmma in '{}'", between(line, "function '", "'").value_or("?")));
    } else if (!outcome_.entries.empty()) {
      read_facts(line, outcome_.entries.back());
    }
  }

  // Spills of functions that were not inlined follow their entry's line and count as the entry's.
  static void read_facts(std::string_view line, EntryFacts& entry) {
    if (const auto stack = number_before(line, " bytes stack frame")) {
      entry.stack_bytes += *stack;
      entry.spill_store_bytes += number_before(line, " bytes spill stores").value_or(0);
      entry.spill_load_bytes += number_before(line, " bytes spill loads").value_or(0);
    } else if (line.find("Used ") != std::string_view::npos) {
      if (const auto registers = number_before(line, " registers")) entry.registers = *registers;
    }
  }

  void summarise() {
    for (const auto& [function, reason] : serialized_) {
      outcome_.wgmma_serialized = true;
      note_once(fmt::format("wgmma runs one at a time in '{}': {}", function, reason));
      for (EntryFacts& entry : outcome_.entries) {
        if (entry.name == function) entry.wgmma_serialized = true;
      }
    }
    for (const EntryFacts& entry : outcome_.entries) {
      outcome_.registers = std::max(outcome_.registers, entry.registers);
      const int spilled = entry.spill_store_bytes + entry.spill_load_bytes;
      outcome_.spill_bytes += spilled;
      if (spilled != 0) {
        note_once(fmt::format("'{}' spills registers to memory: {} bytes of stores, {} of loads", entry.name,
                              entry.spill_store_bytes, entry.spill_load_bytes));
      }
    }
    if (outcome_.entries.empty()) note_once("the assembler said nothing: registers and spills are not known");
  }

  void note_once(std::string note) {
    if (std::find(outcome_.notes.begin(), outcome_.notes.end(), note) == outcome_.notes.end()) {
      outcome_.notes.push_back(std::move(note));
    }
  }

  struct Serialized {
    std::string function, reason;
  };

  CompileOutcome& outcome_;
  std::vector<Serialized> serialized_;
};

}  // namespace

void read_ptxas_log(CompileOutcome& outcome) { Reader(outcome).read(); }

}  // namespace epifuse::toolchain
