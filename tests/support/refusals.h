// Refusals of random specs, counted by what is missing: the options of a type and sizes do not tell them apart.
#pragma once

#include <cstdio>
#include <map>
#include <string>

namespace epifuse::test {

class Refusals {
 public:
  void add(const std::string& message) {
    std::string kind;
    int depth = 0;
    bool digits = false;
    for (size_t i = 0; i < message.size(); ++i) {
      const char c = message[i];
      if (c == '(') ++depth;
      const bool digit = c >= '0' && c <= '9' && (digits || i == 0 || message[i - 1] == ' ');
      if (depth == 0 && !(digit && digits)) kind += digit ? 'n' : c;
      digits = digit;
      if (c == ')' && depth > 0) --depth;
    }
    ++counts_[kind];
    ++total_;
  }
  int total() const { return total_; }
  void print(uint64_t specs) const {
    for (const auto& [kind, count] : counts_) std::printf("refused %3d times: %s\n", count, kind.c_str());
    if (total_ != 0) std::printf("refused %d of %llu\n", total_, static_cast<unsigned long long>(specs));
  }

 private:
  std::map<std::string, int> counts_;
  int total_ = 0;
};

}  // namespace epifuse::test
