// The canonical request: what changes it, and what does not.
#include "compiler/request.h"

#include "compiler/compiler.h"
#include "compiler/parser/format.h"
#include "tests/support/catch.h"

using namespace epifuse;

namespace {

constexpr const char* spec = R"(
use "scale.epi"
const half = 0.5
# A comment that says nothing.
kernel small {
  dim   E = 2, K = 64, N = 64
  group M by E
  param limit = 4
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  in  p : f32[M] = 1
  v     = scaled(min(gemm(x, w), limit) * p, half)
  out y : bf16[M, N]  = v
  out q : mxfp8[M, N] = v
}
)";
constexpr const char* used = "fn scaled(v, by) = v * by\n";

std::string request_of(const std::string& text, const CompilerOptions& options = {},
                       const std::string& name = "dir/small.epi", const std::string& lib = used) {
  const size_t slash = name.rfind('/');
  const std::string beside = slash == std::string::npos ? "scale.epi" : name.substr(0, slash) + "/scale.epi";
  MemorySource files(std::map<std::string, std::string>{{beside, lib}});
  Diagnostics diagnostics;
  const Program program = load_program(name, text, files, diagnostics);
  const std::optional<PlannedKernel> planned = plan_kernel(program, "small", options, diagnostics);
  INFO(diagnostics.print());
  REQUIRE(planned);
  return planned->request;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a spec that is moved, renamed, reformatted or commented is the same request") {
  const std::string text = spec;
  const std::string request = request_of(text);
  CHECK(request.starts_with("request 1\nkernel small\n  dim E = 2\n"));
  CHECK(request_of(text, {}, "/somewhere/else/renamed.epi") == request);
  CHECK(request_of(text, {}, "small.epi") == request);
  CHECK(request_of("# another comment\n\n" + replaced(text, "  v     =", "  # here\n  v =")) == request);
  Diagnostics diagnostics;
  const std::optional<std::string> formatted =
      format_spec(std::make_shared<SourceFile>(SourceFile{"small.epi", text}), diagnostics);
  REQUIRE(formatted);
  CHECK(*formatted != text);
  CHECK(request_of(*formatted) == request);
  // What a function is called, and where it stands, is no part of what is computed.
  CHECK(request_of(replaced(text, "scaled(min", "by(min"), {}, "dir/small.epi", "fn by(a, b) = a * b\n") == request);
}

TEST_CASE(
    "what decides a kernel is in its request: dims, consts, types, what is left out, the target, a plan by name") {
  const std::string text = spec;
  const std::string request = request_of(text);
  CompilerOptions options;
  options.dims = {{"K", 128}};
  CHECK(request_of(text, options) != request);
  CHECK(request_of(text, options) == request_of(replaced(text, "K = 64", "K = 128")));
  CHECK(request_of(replaced(text, "half = 0.5", "half = 0.25")) != request);
  CHECK(request_of(replaced(text, "out y : bf16", "out y : f16")) != request);
  CHECK(request_of(replaced(text, "group M by E", "group M by E align 8")) != request);
  CHECK(request_of(replaced(text, "limit = 4", "limit = 5")) != request);  // a default is part of the recipe
  options = {};
  options.left_out = {"p"};
  CHECK(request_of(text, options) != request);
  CHECK(request_of(text, options).find("\nwithout p\n") != std::string::npos);
  options = {};
  options.schedule = "pingpong 128x64";
  CHECK(request_of(text, options) == request + "schedule pingpong 128x64\n");
}

TEST_CASE("a tuning file's plan answers the same request") {
  const std::string text = spec;
  CompilerOptions options;
  std::string asked;
  options.tuned = [&](const std::string& request) {
    asked = request;
    return std::string("pingpong 128x64");
  };
  CHECK(request_of(text, options) == request_of(text));
  CHECK(asked == request_of(text));
}

TEST_CASE("B123 numbers that only a launch knows are in no request") {
  const std::string request = request_of(spec);
  for (const char* word : {"capacity", "counts", "stride", "pointer"}) CHECK(request.find(word) == std::string::npos);
}
