// Two runs of bench against each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace epifuse::tools {

struct ComparedForm {
  std::string file, kernel, form;      // the file of the first run
  std::string dims, counts;            // as JSON
  double before_ms = 0, after_ms = 0;  // hot medians
  std::string before_plan, after_plan;
  bool judged = true;  // the unfused form is there to compare with, and is no reason to fail

  double change_percent() const { return 100 * (after_ms / before_ms - 1); }
  // Exactly as much as the tolerance is not slower, whatever the last digits of a quotient say.
  bool slower(double tolerance_percent) const {
    constexpr double last_digits = 1e-9;
    return judged && change_percent() > tolerance_percent + last_digits;
  }
};

struct Comparison {
  std::vector<ComparedForm> forms;      // in the order of the first run
  std::vector<std::string> only_once;   // kernels (with sizes) that one run alone has, or more often
  std::vector<std::string> conditions;  // what differs around the kernels: card, clock, driver; one sentence each
};

// Both are JSON documents of bench, `before` and `after` are their names for errors. An error (user) says what is
// wrong with which.
Result<Comparison> compare_benches(std::string_view before, const std::string& before_name, std::string_view after,
                                   const std::string& after_name);

std::string comparison_text(const Comparison& comparison, double tolerance_percent);
std::string comparison_json(const Comparison& comparison, double tolerance_percent);

}  // namespace epifuse::tools
