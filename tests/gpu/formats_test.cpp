// Every scaled type in every place, layout and rule (support/format_kernels.h), behind every form of gemm and without
// one, fused and unfused, over ragged groups: judged by the interpreter, and by what the kernel itself stored as f32.
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "compiler/interpreter/interpreter.h"
#include "tests/cases/written_bytes.h"
#include "tests/codegen/format_specs.h"
#include "tests/gpu/support/format_kernels.h"
#include "tests/gpu/support/two_forms.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::HostTensor;
using jit::DataMode;

namespace {

constexpr int64_t slack = 37;  // rows behind the last group

// Numbers that are none, and those at the ends of f32, among ordinary ones; powers of two, so that products of whole
// numbers stay exact. What belongs to no row stays the NaN that it is.
void strew(HostTensor& factors) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::pair<int64_t, double> strewn[] = {{97, std::nan("")}, {89, infinity},  {83, -infinity},   {13, 0.0},
                                               {17, 0x1p-140},     {19, 0x1p127},   {23, -0.0},        {29, -0x1p-126},
                                               {31, 0x1p-12},      {37, 0x1.8p100}, {41, -0x1.8p-100}, {43, 0x1p8}};
  for (int64_t i = 0; i < factors.elements(); ++i) {
    if (std::isnan(interpreter::load_one(factors, i))) continue;
    for (const auto& [every, value] : strewn)
      if (i % every == every / 2) interpreter::store_one(factors, i, value);
  }
}

// How many bytes differ, and the first of them.
std::string difference(const HostTensor& stored, const HostTensor& wanted) {
  if (stored.bytes.size() != wanted.bytes.size())
    return fmt::format("{} bytes, not {}", stored.bytes.size(), wanted.bytes.size());
  size_t count = 0, first = 0;
  for (size_t i = stored.bytes.size(); i-- > 0;) {
    if (stored.bytes[i] == wanted.bytes[i]) continue;
    ++count;
    first = i;
  }
  if (count == 0) return "equal";
  return fmt::format("{} of {} bytes differ, byte {} first: {:02x}, not {:02x}", count, stored.bytes.size(), first,
                     static_cast<unsigned>(stored.bytes[first]), static_cast<unsigned>(wanted.bytes[first]));
}

// What the reference computes without rounding, so that any other byte is wrong.
enum class Exact { yes, no };

void check(const TwoForms& forms, jit::VerifyOptions options, const std::string& what, Exact exact) {
  options.unfused = forms.unfused;
  const auto report = must(jit::verify(engine(), forms.fused, options, gpu().device));
  INFO(what << "\n" << report.print());
  CHECK(report.ok);
  if (exact == Exact::no) return;
  for (const auto& verdicts : {report.outputs, report.unfused})
    for (const interpreter::Verdict& verdict : verdicts) {
      INFO(verdict.output);
      CHECK(verdict.different == 0);
      CHECK(verdict.scales_different == 0);
    }
}

// Whole numbers; the same times numbers that are none; and rows of all magnitudes.
void check_all_data(const TwoForms& forms, jit::VerifyOptions options) {
  options.inputs.mode = DataMode::integers;
  check(forms, options, "whole numbers", Exact::yes);
  jit::VerifyOptions strewn = options;
  interpreter::Buffers inputs = must(jit::make_inputs(forms.fused->planned.graph, options.inputs));
  strew(inputs.at("s"));
  strewn.inputs.given["s"] = std::move(inputs.at("s"));
  check(forms, strewn, "whole numbers, times NaN, infinities, zeros, and the ends of f32", Exact::no);
  options.inputs.mode = DataMode::scaled;
  ++options.inputs.seed;
  check(forms, options, "scaled", Exact::no);
}

bool is_compiled(const TwoForms& forms) {
  INFO(forms.why);
  CHECK(forms.fused);
  CHECK(forms.unfused);
  if (!forms.fused || !forms.unfused) return false;
  // Many outputs of one value: more than a kernel of the cookbook has.
  CHECK(forms.fused->image.spill_bytes <= 128);
  CHECK(!forms.fused->image.wgmma_serialized);
  return true;
}

}  // namespace

TEST_CASE("every scaled type, in every place and layout, under every rule, behind every form of gemm") {
  const std::vector<FormatKernel> kernels = format_kernels();
  std::vector<FormSpec> specs;
  for (const FormatKernel& kernel : kernels) specs.push_back({kernel.text, {}});
  const std::vector<TwoForms> compiled = compile_forms(specs);
  uint64_t seed = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    INFO(kernels[i].name << "\n" << kernels[i].text);
    if (!is_compiled(compiled[i])) continue;
    jit::VerifyOptions options;
    options.inputs.seed = ++seed;
    if (!kernels[i].counts.empty()) {
      options.inputs.counts = kernels[i].counts;
      options.inputs.slack_rows = i % 2 == 0 ? slack : 0;
      check_all_data(compiled[i], options);
    }
    for (const int64_t rows : kernels[i].rows) {
      INFO(rows << " rows");
      options.inputs.mode = DataMode::integers;
      options.inputs.sizes["S"] = rows;
      if (rows == kernels[i].rows[0])
        check_all_data(compiled[i], options);
      else
        check(compiled[i], options, "whole numbers", Exact::yes);
    }
  }
}

TEST_CASE("groups without rows, and one that has them all, in every scaled type") {
  std::vector<FormSpec> specs;
  for (const FormatKernel& kernel : format_kernels())
    if (!kernel.counts.empty() && specs.size() < 20) specs.push_back({kernel.text, {}});
  for (const TwoForms& forms : compile_forms(specs)) {  // from memory
    INFO(forms.spec.text);
    if (!is_compiled(forms)) continue;
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 300}}) {
      jit::VerifyOptions options;
      options.inputs.mode = DataMode::integers;
      options.inputs.counts = counts;
      options.inputs.slack_rows = slack;
      check(forms, options, "", Exact::yes);
    }
  }
}

TEST_CASE("single elements that are no numbers, each in a block of its own") {
  // A full-tile factor: what is wrong with one element is its own block's matter, along rows and down columns.
  const std::string frame =
      "kernel formats {\n  dim E = 6, K = 72, N = 160\n  group M by E\n  group P = M align 128\n  in x : bf16[M, K]\n"
      "  in w : bf16[E, N, K]\n  in s : f32[M, N]\n  v = gemm(x, w) * s\n  out f : f32[M, N] = v\n";
  const std::vector<FormSpec> specs = {
      {frame + "  out a : mxfp8[M, N] = v\n  out b : mxfp8(nonfinite = te, elem = e5m2)[N, P] = v\n"
               "  out c : mxfp4(nonfinite = te)[M, N] = v\n}\n",
       {}},
      {frame + "  out a : fp8_1x128(nonfinite = te)[M, N] = v\n  out b : fp8_1x128(rule = vllm)[N, P] = v\n"
               "  out c : fp8_128x128(rule = deepgemm, nonfinite = te)[P, N] = v\n}\n",
       {}},
      {frame + "  out a : nvfp4(nonfinite = te)[M, N] = v\n  out b : nvfp4[N, P] = v\n"
               "  out c : nvfp4_16x16(nonfinite = te)[P, N] = v\n}\n",
       {}}};
  for (const TwoForms& forms : compile_forms(specs)) {
    INFO(forms.spec.text);
    if (!is_compiled(forms)) continue;
    jit::VerifyOptions options;
    options.inputs.counts = {{33, 0, 1, 127, 129, 31}};
    options.inputs.slack_rows = slack;
    options.inputs.seed = 3;
    check_all_data(forms, options);
  }
}

TEST_CASE("every scaled type in kernels without gemm") {
  std::vector<FormSpec> specs;
  for (const PointwiseSpec& spec : format_specs()) specs.push_back({spec.text, {}});
  const std::vector<TwoForms> compiled = compile_forms(specs);
  for (size_t i = 0; i < specs.size(); ++i) {
    const PointwiseSpec& spec = format_specs()[i];
    INFO(spec.text);
    if (!is_compiled(compiled[i])) continue;
    jit::VerifyOptions options;
    if (!spec.counts.empty()) options.inputs.counts = spec.counts;
    options.inputs.sizes = spec.sizes;
    options.inputs.slack_rows = spec.slack_rows;
    for (const DataMode mode : {DataMode::integers, DataMode::normal, DataMode::scaled}) {
      options.inputs.mode = mode;
      ++options.inputs.seed;
      check(compiled[i], options, "", Exact::no);
    }
  }
}

TEST_CASE("what is not lowered is refused by name, and is right when each operation has a kernel of its own") {
  const std::vector<RefusedFormat> refused = refused_formats();
  std::vector<FormSpec> specs;
  for (const RefusedFormat& one : refused) specs.push_back({one.text, {}});
  const std::vector<TwoForms> compiled = compile_forms(specs);
  for (size_t i = 0; i < refused.size(); ++i) {
    INFO(refused[i].text << compiled[i].why);
    CHECK(!compiled[i].fused);
    CHECK(compiled[i].why.find(refused[i].why + " is not lowered yet") != std::string::npos);
    CHECK(compiled[i].unfused);
    if (!compiled[i].unfused) continue;
    jit::InputOptions options;
    options.mode = DataMode::integers;
    options.counts = {{33, 0, 1, 127, 129, 31}};
    const auto inputs = must(jit::make_inputs(compiled[i].unfused->graph, options));
    compiled[i].run_unfused(inputs, [&](const interpreter::Buffers& stored) {
      const auto problem = must(interpreter::Problem::bind(compiled[i].unfused->graph, inputs, {}));
      interpreter::Buffers before = inputs;
      before.merge(must(interpreter::make_outputs(problem, 0xFF)));
      for (const auto& [name, wanted] : must(interpreter::run(compiled[i].unfused->graph, before))) {
        INFO(name << ": " << difference(stored.at(name), wanted));
        CHECK((stored.at(name).bytes == wanted.bytes));
      }
    });
  }
}
