#include "compiler/toolchain/phase_times.h"

#include <charconv>
#include <utility>

namespace epifuse::toolchain {
namespace {

// From the end: the program's name may hold anything.
std::string_view take_last_field(std::string_view& line) {
  const size_t comma = line.rfind(',');
  std::string_view field = comma == std::string_view::npos ? line : line.substr(comma + 1);
  line = comma == std::string_view::npos ? std::string_view() : line.substr(0, comma);
  while (!field.empty() && (field.front() == ' ' || field.front() == '\t')) field.remove_prefix(1);
  while (!field.empty() && (field.back() == ' ' || field.back() == '\r')) field.remove_suffix(1);
  return field;
}

}  // namespace

PhaseTimes& PhaseTimes::operator+=(const PhaseTimes& other) {
  cuda += other.cuda;
  nvvm += other.nvvm;
  ptxas += other.ptxas;
  return *this;
}

PhaseTimes parse_phase_times(std::string_view table) {
  constexpr std::pair<std::string_view, double PhaseTimes::*> phases[] = {{"CUDA C++ Frontend", &PhaseTimes::cuda},
                                                                          {"NVVM Optimizer", &PhaseTimes::nvvm},
                                                                          {"PTX Translation", &PhaseTimes::ptxas}};
  PhaseTimes times;
  while (!table.empty()) {
    const size_t end = table.find('\n');
    std::string_view line = table.substr(0, end);
    table.remove_prefix(end == std::string_view::npos ? table.size() : end + 1);
    if (take_last_field(line) != "ms") continue;
    const std::string_view number = take_last_field(line), phase = take_last_field(line);
    double milliseconds = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), milliseconds);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size()) continue;
    for (const auto& [name, field] : phases)
      if (phase == name) times.*field += milliseconds;
  }
  return times;
}

}  // namespace epifuse::toolchain
