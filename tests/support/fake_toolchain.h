// A toolchain without a compiler: it records every request, sleeps as long as a test wants, and says of each kernel
// what the test told it to. Its cubin is a digest of the text, so that different texts give different artifacts.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "compiler/toolchain/toolchain.h"

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
    outcome.cubin = "cubin of " + digest(request.source).hex();
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
  mutable std::mutex mutex_;
  std::vector<toolchain::CompileRequest> requests_;
};

}  // namespace epifuse::test
