// A toolchain without a compiler: it records every request, sleeps as long as a test wants, and says of each kernel
// what the test told it to. Its cubin has the text's entries and its digest, so that different texts give different
// artifacts.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "compiler/toolchain/toolchain.h"
#include "tests/support/fake_cubin.h"

namespace epifuse::test {

class FakeToolchain : public toolchain::Toolchain {
 public:
  Result<std::string> installed = std::string("fake 1.0");  // what identity() says
  std::chrono::milliseconds takes{0};
  // Sets registers, spills and the like of the n-th compile (from 0), or makes it fail.
  std::function<Status(int n, const toolchain::CompileRequest&, toolchain::CompileOutcome&)> say;

  Result<std::string> identity() override { return installed; }

  Result<toolchain::CompileOutcome> compile(const toolchain::CompileRequest& request) override {
    int n = 0;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      n = static_cast<int>(requests_.size());
      requests_.push_back(request);
    }
    std::this_thread::sleep_for(takes);
    toolchain::CompileOutcome outcome;
    outcome.cubin = fake_cubin(entries_of(request.source), "cubin of " + digest(request.source).hex());
    outcome.ptx = "// ptx of " + request.program_name;
    outcome.registers = 168;
    if (say) {
      if (const Status said = say(n, request, outcome); !said) return said.error();
    }
    return outcome;
  }

  std::vector<toolchain::CompileRequest> requests() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return requests_;
  }
  int calls() const { return static_cast<int>(requests().size()); }

 private:
  // `extern "C" __global__ void __launch_bounds__(128) NAME(const …`
  static std::set<std::string> entries_of(std::string_view source) {
    std::set<std::string> names;
    constexpr std::string_view mark = "__global__", before = "(const ";
    for (size_t at = source.find(mark); at != std::string_view::npos; at = source.find(mark, at + 1)) {
      const size_t end = source.find(before, at);
      if (end == std::string_view::npos) break;
      const std::string_view name = source.substr(at, end - at);
      names.emplace(name.substr(name.rfind(' ') + 1));
    }
    return names;
  }

  mutable std::mutex mutex_;
  std::vector<toolchain::CompileRequest> requests_;
};

}  // namespace epifuse::test
