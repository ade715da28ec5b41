// The only file that includes CLI11; its exceptions end here.
#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <string_view>

#include "base/diagnostics.h"
#include "base/settings.h"
#include "tools/values.h"

namespace epifuse::tools {
namespace {

constexpr const char* main_footer = R"(Examples:
  epifuse check specs/moe_fc1_swiglu.epi
  epifuse compile specs/moe_fc1_swiglu.epi --dims E=8,K=4096,I=1792 -o fc1.cubin
  epifuse compile specs/moe_fc1_swiglu.epi --emit=cuda
  epifuse run specs/moe_fc1_swiglu.epi --dims K=256,I=128 --counts 0,1,127,3,0,9,40,2 -o results
  epifuse verify specs/moe_fc1_swiglu.epi --counts 0,1,127,129,1000,0,4096,5
  epifuse prebuild specs/moe_fc1_swiglu.epi --dims E=8,K=7168,I=2048 -o kernels.epb
  epifuse doctor

Exit codes: 0 good; 1 the input; 2 the command line; 3 this machine (no NVRTC, no GPU); 4 a bug of Epifuse; 5 the thing
checked is wrong. `epifuse COMMAND --help` tells a command's options; docs/command_line.md has all of it.)";

constexpr const char* check_footer = R"(Examples:
  epifuse check specs/*.epi
  epifuse check my.epi --json)";

constexpr const char* compile_footer = R"(Examples:
  epifuse compile specs/grouped_gemm.epi                         from the cache, or with NVRTC
  epifuse compile specs/grouped_gemm.epi -o gemm.cubin           and write the cubin
  epifuse compile specs/grouped_gemm.epi --emit=plan             any stage: tokens ast ir plan cuda ptx cubin sass
  epifuse compile specs/grouped_gemm.epi --dims E=8,K=4096,N=1792 --schedule "pingpong 128x192"
  epifuse compile specs/moe_fc1_swiglu.epi --unfused --emit=cuda  a kernel for each operation)";

constexpr const char* run_footer =
    R"(Buffers have the names of the spec: x, y and y.scale, M.ends or M.counts. bf16 is read and written as uint16 bits; fp8,
e8m0 and fp4 as uint8; f32 and f64 files are rounded once to what the spec says. Inputs that are not given are random.

Examples:
  epifuse run specs/moe_fc1_swiglu.epi --dims K=256,I=128 -o results
  epifuse run specs/moe_fc1_swiglu.epi x=x.npy w=w.npy prob=prob.npy M.ends=ends.npy -o results.npz
  epifuse run specs/moe_fc1_swiglu.epi --inputs data/ --device cpu)";

constexpr const char* verify_footer = R"(Examples:
  epifuse verify specs/moe_fc1_swiglu.epi
  epifuse verify specs/grouped_gemm.epi --counts 0,1,127,129,1000,0,4096,5 --seed 7
  epifuse verify specs/moe_fc1_swiglu.epi --tap act        and the value in front of the quantiser)";

constexpr const char* explain_footer = R"(Examples:
  epifuse explain specs/moe_fc1_swiglu.epi
  epifuse explain specs/grouped_gemm.epi --dims E=16,K=2880,N=5760 --expected-rows 2048
  epifuse explain specs/swiglu_mlp.epi --kernel fc1_wgrad --counts 512,0,4096,1,1000,1000,1000,1000 --json)";

constexpr const char* bench_footer = R"(Examples:
  epifuse bench specs/moe_fc1_swiglu.epi --expected-rows 4096 -o today.json
  epifuse bench specs/swiglu_mlp.epi --no-unfused              every kernel of a file
  epifuse bench specs/grouped_gemm.epi --host                  host time of a launch
  epifuse bench --compare before.json today.json --tolerance 2)";

constexpr const char* tune_footer = R"(Examples:
  epifuse tune specs/moe_fc1_swiglu.epi --expected-rows 4096 -o tuning.json
  EPIFUSE_TUNING=tuning.json epifuse compile specs/moe_fc1_swiglu.epi      takes the plan that was found
  epifuse tune specs/grouped_gemm.epi --dims E=16,K=2880,N=5760 --report   only says what is fast, and how good the
                                                                           cost model's choice is)";

constexpr const char* fmt_footer = R"(Examples:
  epifuse fmt specs/*.epi              writes each anew that is not formatted
  epifuse fmt specs/*.epi --check      names those, exit code 1, and writes nothing
  epifuse fmt my.epi -o formatted.epi)";

constexpr const char* grad_footer = R"(Examples:
  epifuse grad specs/swiglu_mlp.epi --chain fc1,fc2 -o backward.epi
  epifuse grad specs/moe_fc1_swiglu.epi --chain moe_fc1_swiglu     of one layer)";

constexpr const char* doctor_footer = R"(Examples:
  epifuse doctor            the GPU, the driver, NVRTC, the cache, and the settings
  epifuse doctor --json)";

constexpr const char* cache_footer = R"(Examples:
  epifuse cache list                    last use, size, target and kernel of every entry
  epifuse cache show 3f9a               one entry, named by the beginning of its key: what it was made from
  epifuse cache why my.epi --dims K=64  whether a kernel is there, and if not, what differs from the nearest entry
  epifuse cache verify                  reads every entry; exit code 5 when one is damaged
  epifuse cache prune --size 500M       removes what was used least recently, and what killed processes left
  epifuse cache clear                   removes all
  epifuse cache path                    its directory)";

constexpr const char* prebuild_footer = R"(Examples:
  epifuse prebuild specs/moe_fc1_swiglu.epi --dims E=8,K=7168,I=2048 --dims E=16,K=2880,I=2880 -o kernels.epb
  epifuse prebuild --manifest kernels.json -o kernels.epb --jobs 8
  epifuse prebuild --manifest kernels.json -o kernels.epb --check   missing, extra, stale? exit code 5; compiles nothing
  EPIFUSE_RECORD=run.jsonl python train.py; epifuse prebuild --from-record run.jsonl -o kernels.epb)";

constexpr const char* bundle_footer = R"(Examples:
  epifuse bundle list kernels.epb
  epifuse bundle verify kernels.epb                     exit code 5 when it is damaged
  epifuse bundle extract kernels.epb --kernel fc1 -o directory
  epifuse bundle merge a.epb b.epb -o both.epb
  epifuse bundle diff old.epb new.epb                   exit code 5 when they differ
  epifuse bundle embed kernels.epb -o kernels.S         or kernels.c: to link into a program)";

constexpr const char* commands[] = {"check", "compile", "run",    "verify", "explain",  "bench", "tune",
                                    "fmt",   "grad",    "doctor", "cache",  "prebuild", "bundle"};

// Option values as they were written; turned into a CommandLine when CLI11 is done.
struct Written {
  std::vector<std::string> specs, inputs;
  std::string spec, kernel, schedule, device = "auto", seed = "0", data = "normal";
  std::optional<std::string> target, emit, output, inputs_from, counts, slack, jobs, chain;
  std::optional<std::string> expected_rows, warm, rounds, tolerance, jit, record;
  std::optional<std::string> manifest, plans, from_record, symbol;
  std::vector<std::string> bundles, targets;
  std::string cache_key;
  std::optional<std::string> cache_size;
  std::vector<std::string> dims, params, without, taps;
  bool json = false, check_only = false, unfused = false, no_unfused = false;
  bool host = false, compare = false, no_full_clock = false, report = false;
  bool dry_run = false, partial = false, prefer_first = false;
};

// An option that may be given several times, with one value each time, so that it does not swallow what follows.
CLI::Option* add_repeated(CLI::App& app, const char* name, std::vector<std::string>& values, const char* help) {
  return app.add_option(name, values, help)->allow_extra_args(false)->take_all();
}

void add_json(CLI::App& app, Written& written) {
  app.add_flag("--json", written.json, "one JSON document on stdout instead of text, errors too");
}

void add_spec(CLI::App& app, Written& written) {
  app.add_option("FILE", written.spec, "the spec")->required();
  app.add_option("--kernel", written.kernel, "which kernel, when the file has several")->type_name("NAME");
}

void add_kernel_options(CLI::App& app, Written& written) {
  add_repeated(app, "--dims", written.dims, "numbers of dimensions: E=8,K=7168")->type_name("NAME=N,...");
  add_repeated(app, "--without", written.without, "an optional input or an output that is left out")->type_name("NAME");
  add_repeated(app, "--tap", written.taps, "a value that gets an f32 output of its own, NAME_tap")->type_name("NAME");
  app.add_option("--target", written.target, "the GPU to compile for: sm_90a")->type_name("NAME");
  app.add_option("--schedule", written.schedule, "this plan and no other, as --emit=plan names it")->type_name("TEXT");
}

// Where kernels come from.
void add_source_options(CLI::App& app, Written& written) {
  add_repeated(app, "--bundle", written.bundles, "a bundle of prebuilt kernels, looked into before the cache")
      ->type_name("FILE");
  app.add_option("--jit", written.jit, "off: a kernel that is not there is an error, never a compile")
      ->type_name("on|off");
  app.add_option("--record", written.record, "a file that gets a line for each kernel, for prebuild --from-record")
      ->type_name("FILE");
}

void add_data_options(CLI::App& app, Written& written) {
  app.add_option("INPUTS", written.inputs, "NAME=FILE.npy: inputs and group sizes");
  app.add_option("--inputs", written.inputs_from, "a directory of NAME.npy files, or an .npz")->type_name("PATH");
  app.add_option("--counts", written.counts, "rows of each group: 0,1,127")->type_name("N,...");
  app.add_option("--slack", written.slack, "rows behind the last group, where no input says how many")->type_name("N");
  app.add_option("--seed", written.seed, "of the inputs that are not given")->type_name("N");
  app.add_option("--data", written.data,
                 "what those hold: normal, scaled (rows times 2^-8 to 2^8), integers (-2 to 2)");
  add_repeated(app, "--param", written.params, "a param of the spec: limit=7.0")->type_name("NAME=X");
  app.add_option("--jobs", written.jobs, "threads of the interpreter")->type_name("N");
}

// For what looks at the cost of kernels.
void add_size_options(CLI::App& app, Written& written) {
  app.add_option("--counts", written.counts, "rows of each group: 0,1,127")->type_name("N,...");
  app.add_option("--expected-rows", written.expected_rows,
                 "rows of each group, and the size of each dyn, where nothing else says them; 2048")
      ->type_name("N");
}

// CLI11 lets an option take whatever stands behind it.
std::string refuse_value(const std::string& value) {
  if (value.empty()) return "the value is empty";
  if (value.starts_with("--")) return fmt::format("'{}' is an option and no value", value);
  return "";
}

void check_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options())
    if (!option->get_positional() && option->get_items_expected_max() > 0) option->check(refuse_value);
}

void add_prebuild(CLI::App& app, Written& written) {
  CLI::App& prebuild = *app.add_subcommand("prebuild", "compiles kernels ahead of time into a bundle (needs no GPU)");
  CLI::Option* specs = prebuild.add_option("FILE", written.specs, "the specs");
  prebuild.add_option("--kernel", written.kernel, "that kernel alone, not all of the files")->type_name("NAME");
  add_repeated(prebuild, "--dims", written.dims, "a set of numbers, E=8,K=7168; several times: each is built")
      ->type_name("NAME=N,...");
  add_repeated(prebuild, "--target", written.targets, "a GPU to compile for, sm_90a; several times: each is built")
      ->type_name("NAME");
  add_repeated(prebuild, "--without", written.without, "an optional input or an output that is left out")
      ->type_name("NAME");
  prebuild.add_option("--schedule", written.schedule, "this plan and no other; whoever loads must ask for it too")
      ->type_name("TEXT");
  prebuild.add_flag("--unfused", written.unfused, "the kernels of the unfused forms too, which verify and bench use");
  prebuild.add_option("--plans", written.plans, "a tuning file: its plans go before the cost model's")
      ->type_name("FILE");
  CLI::Option* manifest =
      prebuild.add_option("--manifest", written.manifest, "a JSON file that says what to build")->type_name("FILE");
  CLI::Option* record =
      prebuild.add_option("--from-record", written.from_record, "what --record wrote: builds that")->type_name("FILE");
  manifest->excludes(specs)->excludes(record);
  record->excludes(specs);
  prebuild.add_option("-o", written.output, "the bundle")->type_name("FILE")->required();
  prebuild.add_option("--jobs", written.jobs, "processes that compile; one for each core, as far as memory goes")
      ->type_name("N");
  CLI::Option* dry = prebuild.add_flag("--dry-run", written.dry_run, "only says what would be built");
  CLI::Option* check =
      prebuild.add_flag("--check", written.check_only, "only says what the bundle lacks, or has too much; exit code 5");
  prebuild.add_flag("--partial", written.partial, "writes the bundle even when a kernel could not be built")
      ->excludes(dry)
      ->excludes(check);
  dry->excludes(check);
  prebuild.footer(prebuild_footer);
  add_json(prebuild, written);
  check_values(prebuild);
}

void add_bundle(CLI::App& app, Written& written) {
  CLI::App& bundle = *app.add_subcommand("bundle", "bundles of prebuilt kernels");
  bundle.footer(bundle_footer);
  bundle.require_subcommand(1);
  CLI::App& list = *bundle.add_subcommand("list", "the kernels");
  CLI::App& verify = *bundle.add_subcommand("verify", "whether every byte is as it was written");
  CLI::App& extract = *bundle.add_subcommand("extract", "cubins, recipes and requests as files");
  CLI::App& merge = *bundle.add_subcommand("merge", "several bundles into one");
  CLI::App& diff = *bundle.add_subcommand("diff", "two bundles, kernel by kernel");
  CLI::App& embed = *bundle.add_subcommand("embed", "a source to link into a program: .S, or .c");
  for (CLI::App* one : {&list, &verify, &extract, &embed})
    one->add_option("FILE", written.specs, "the bundle")->required()->expected(1);
  for (CLI::App* one : {&list, &extract})
    one->add_option("--kernel", written.kernel, "that kernel alone")->type_name("NAME");
  merge.add_option("FILE", written.specs, "the bundles")->required();
  merge.add_flag("--prefer-first", written.prefer_first, "of two that answer one request differently, the earlier");
  diff.add_option("FILE", written.specs, "the bundles")->required()->expected(2);
  extract.add_option("-o", written.output, "a directory")->type_name("PATH")->required();
  merge.add_option("-o", written.output, "the bundle to write")->type_name("FILE")->required();
  embed.add_option("-o", written.output, "the source to write: NAME.S, or NAME.c")->type_name("FILE")->required();
  embed.add_option("--symbol", written.symbol, "of the bytes in the program; epifuse_bundle")->type_name("NAME");
  for (CLI::App* one : {&list, &verify, &extract, &merge, &diff, &embed}) {
    add_json(*one, written);
    check_values(*one);
  }
}

struct Parser {
  CLI::App app{"Epifuse compiles specs of fused MoE and MLP kernels into CUDA kernels.", "epifuse"};
  Written written;
  bool version = false;

  Parser() {
    app.footer(main_footer);
    app.require_subcommand(1);
    app.add_flag("--version", version, "version, commit, and the NVRTC found");

    CLI::App& check = *app.add_subcommand("check", "reads specs and says everything that is wrong with them");
    check.add_option("FILE", written.specs, "the specs")->required();
    add_repeated(check, "--dims", written.dims, "numbers of dimensions: E=8,K=7168")->type_name("NAME=N,...");
    check.footer(check_footer);

    CLI::App& compile = *app.add_subcommand("compile", "compiles a kernel, or prints one stage of its way");
    add_spec(compile, written);
    add_kernel_options(compile, written);
    compile.add_option("--emit", written.emit, "tokens, ast, ir, plan, cuda, ptx, cubin or sass")->type_name("STAGE");
    compile.add_flag("--unfused", written.unfused, "each operation as a kernel of its own");
    add_source_options(compile, written);
    compile.add_option("-o", written.output, "the file to write: the cubin, or the stage")->type_name("FILE");
    compile.footer(compile_footer);

    CLI::App& run = *app.add_subcommand("run", "runs a kernel, on the GPU or on the interpreter");
    add_spec(run, written);
    add_data_options(run, written);
    add_kernel_options(run, written);
    add_source_options(run, written);
    run.add_option("--device", written.device, "cpu (the interpreter), gpu, or auto: the GPU where there is one");
    run.add_flag("--unfused", written.unfused, "on a GPU, each operation as a kernel of its own");
    run.add_option("-o", written.output, "a directory for NAME.npy files, or an .npz")->type_name("PATH");
    run.footer(run_footer);

    CLI::App& verify = *app.add_subcommand("verify", "compares the GPU's result with the interpreter's (needs a GPU)");
    add_spec(verify, written);
    add_data_options(verify, written);
    add_kernel_options(verify, written);
    add_source_options(verify, written);
    verify.add_flag("--no-unfused", written.no_unfused, "the fused kernel alone, not beside the unfused ones");
    verify.footer(verify_footer);

    CLI::App& explain = *app.add_subcommand("explain", "says what a kernel costs at least, and why it gets its plan");
    explain.add_option("FILE", written.spec, "the spec")->required();
    explain.add_option("--kernel", written.kernel, "that kernel alone, not all of the file")->type_name("NAME");
    add_kernel_options(explain, written);
    add_size_options(explain, written);
    explain.footer(explain_footer);

    CLI::App& bench = *app.add_subcommand("bench", "times kernels against their unfused form (needs a GPU)");
    bench.add_option("FILE", written.specs, "the specs; with --compare two files that bench wrote")->required();
    bench.add_option("--kernel", written.kernel, "that kernel alone, not all of the file")->type_name("NAME");
    add_kernel_options(bench, written);
    add_size_options(bench, written);
    add_repeated(bench, "--param", written.params, "a param of the spec: limit=7.0")->type_name("NAME=X");
    add_source_options(bench, written);
    bench.add_option("--seed", written.seed, "of the inputs")->type_name("N");
    bench.add_option("--warm", written.warm, "seconds of the same work in front; 3")->type_name("SECONDS");
    bench.add_option("--rounds", written.rounds, "turns of each kernel, at least; 16")->type_name("N");
    bench.add_flag("--no-unfused", written.no_unfused, "the fused kernels alone");
    bench.add_flag("--no-full-clock", written.no_full_clock, "on a hot card alone");
    CLI::Option* host = bench.add_flag("--host", written.host, "what launching and binding cost the host instead");
    bench.add_flag("--compare", written.compare, "compares two earlier runs; exit code 5 when the second is slower")
        ->excludes(host);
    bench.add_option("--tolerance", written.tolerance, "of --compare: percent that are no difference yet; 3")
        ->type_name("PERCENT");
    bench.add_option("-o", written.output, "a file for the JSON document")->type_name("FILE");
    bench.footer(bench_footer);

    CLI::App& tune = *app.add_subcommand("tune", "finds the fastest plans of kernels by trying them (needs a GPU)");
    tune.add_option("FILE", written.spec, "the spec")->required();
    tune.add_option("--kernel", written.kernel, "that kernel alone, not all of the file")->type_name("NAME");
    add_repeated(tune, "--dims", written.dims, "numbers of dimensions: E=8,K=7168")->type_name("NAME=N,...");
    add_repeated(tune, "--without", written.without, "an optional input or an output that is left out")
        ->type_name("NAME");
    add_size_options(tune, written);
    add_repeated(tune, "--param", written.params, "a param of the spec: limit=7.0")->type_name("NAME=X");
    tune.add_option("--seed", written.seed, "of the inputs")->type_name("N");
    tune.add_option("--warm", written.warm, "seconds of the same work in front of each of three rounds; 3")
        ->type_name("SECONDS");
    tune.add_option("--rounds", written.rounds, "turns of each plan in the last round, at least; 16")->type_name("N");
    tune.add_option("--jobs", written.jobs, "threads of the compiler")->type_name("N");
    tune.add_flag("--report", written.report, "without -o: shows what was measured, and stores nothing");
    tune.add_option("-o", written.output, "the tuning file; what it has of other kernels stays")->type_name("FILE");
    tune.footer(tune_footer);

    CLI::App& format = *app.add_subcommand("fmt", "formats specs in place");
    format.add_option("FILE", written.specs, "the specs")->required();
    CLI::Option* only = format.add_flag("--check", written.check_only, "writes nothing, names what would change");
    format.add_option("-o", written.output, "the file to write in place of the spec")
        ->type_name("FILE")
        ->excludes(only);
    format.footer(fmt_footer);

    CLI::App& grad =
        *app.add_subcommand("grad", "prints the backward kernels of a chain of forward kernels, as a spec");
    grad.add_option("FILE", written.spec, "the spec")->required();
    grad.add_option("--chain", written.chain, "kernels of the spec, in the order they run")
        ->type_name("NAME,...")
        ->required();
    grad.add_option("-o", written.output, "the file to write")->type_name("FILE");
    grad.footer(grad_footer);

    add_prebuild(app, written);
    add_bundle(app, written);

    CLI::App& doctor = *app.add_subcommand("doctor", "says what this machine can do");
    CLI::App& cache = *app.add_subcommand("cache", "the kernel cache on disk");
    doctor.footer(doctor_footer);
    cache.footer(cache_footer);  // also of its own commands
    cache.require_subcommand(1);
    CLI::App& list = *cache.add_subcommand("list", "the entries");
    CLI::App& show = *cache.add_subcommand("show", "one entry, and the request that it was made from");
    show.add_option("KEY", written.cache_key, "the beginning of the entry's key")->required();
    CLI::App& why = *cache.add_subcommand("why", "whether a kernel is there, and if not, why");
    add_spec(why, written);
    add_kernel_options(why, written);
    CLI::App& verify_cache = *cache.add_subcommand("verify", "reads every entry; exit code 5 when one is damaged");
    CLI::App& prune = *cache.add_subcommand("prune", "removes what is used least, and leftovers");
    prune.add_option("--size", written.cache_size, "bytes to keep at most, 500M or 2G; EPIFUSE_CACHE_SIZE if left out")
        ->type_name("SIZE");
    CLI::App& clear = *cache.add_subcommand("clear", "removes all entries");
    CLI::App& path = *cache.add_subcommand("path", "the directory");
    for (CLI::App* command : {&check, &compile, &run, &verify, &explain, &bench, &tune, &format, &grad, &doctor, &list,
                              &show, &why, &verify_cache, &prune, &clear, &path}) {
      add_json(*command, written);
      check_values(*command);
    }
  }

  // "cache list": the names of the commands that were recognised.
  std::string command() const {
    std::string name;
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) {
      at = at->get_subcommands().front();
      name += (name.empty() ? "" : " ") + at->get_name();
    }
    return name;
  }
};

Result<DeviceChoice> parse_device(const std::string& text) {
  if (text == "auto") return DeviceChoice::automatic;
  if (text == "cpu") return DeviceChoice::cpu;
  if (text == "gpu") return DeviceChoice::gpu;
  return user_error(fmt::format("'{}' is not cpu, gpu or auto", text));
}

Result<Emit> parse_emit(const std::string& text) {
  constexpr std::string_view names[] = {"tokens", "ast", "ir", "plan", "cuda", "ptx", "cubin", "sass"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (names[i] == text) return static_cast<Emit>(i);
  return user_error(
      fmt::format("'{}' is no stage; the stages are tokens, ast, ir, plan, cuda, ptx, cubin and sass", text));
}

Result<jit::DataMode> parse_data(const std::string& text) {
  if (text == "normal") return jit::DataMode::normal;
  if (text == "scaled") return jit::DataMode::scaled;
  if (text == "integers") return jit::DataMode::integers;
  return user_error(fmt::format("'{}' is not normal, scaled or integers", text));
}

Error in_option(std::string_view option, const Error& error) {
  return user_error(fmt::format("{}: {}", option, error.message));
}

// How kernels are measured.
Status understand_measuring(const Written& written, CommandLine& line) {
  line.host = written.host;
  line.compare = written.compare;
  line.no_full_clock = written.no_full_clock;
  line.report = written.report;
  if (written.compare && written.specs.size() != 2)
    return user_error(fmt::format("--compare: it takes two files that bench wrote, not {}", written.specs.size()));
  if (written.expected_rows) {
    const Result<int64_t> rows = parse_integer(*written.expected_rows, 1, int64_t{1} << 31);
    if (!rows) return in_option("--expected-rows", rows.error());
    if (written.counts) return user_error("--expected-rows: --counts says how many rows the groups have");
    line.expected_rows = *rows;
  }
  if (written.rounds) {
    const Result<int64_t> rounds = parse_integer(*written.rounds, 1, 100000);
    if (!rounds) return in_option("--rounds", rounds.error());
    line.rounds = static_cast<int>(*rounds);
  }
  if (written.warm) {
    const Result<double> seconds = parse_number(*written.warm, 0, 600);
    if (!seconds) return in_option("--warm", seconds.error());
    line.warm_seconds = *seconds;
  }
  if (written.tolerance) {
    const Result<double> percent = parse_number(*written.tolerance, 0, 1000);
    if (!percent) return in_option("--tolerance", percent.error());
    line.tolerance_percent = *percent;
  }
  return {};
}

// A set for each --dims of prebuild, else one of them all.
Status understand_dims(const Written& written, CommandLine& line) {
  for (const std::string& text : written.dims) {
    auto& into = line.command == "prebuild" ? line.dim_sets.emplace_back() : line.dims;
    if (Status status = parse_dims(text, into); !status) return in_option("--dims", status.error());
  }
  return {};
}

// Where kernels come from, and what is built ahead of time.
Status understand_bundles(const Written& written, CommandLine& line) {
  line.bundles = written.bundles;
  line.record = written.record.value_or("");
  if (written.jit && *written.jit != "on" && *written.jit != "off")
    return user_error(fmt::format("--jit: '{}' is not on or off", *written.jit));
  if (written.jit) line.jit = *written.jit == "on";
  line.manifest = written.manifest.value_or("");
  line.plans = written.plans.value_or("");
  line.from_record = written.from_record.value_or("");
  line.symbol = written.symbol.value_or("");
  line.dry_run = written.dry_run;
  line.partial = written.partial;
  line.prefer_first = written.prefer_first;
  for (const std::string& name : written.targets) {
    const Result<Target> target = parse_target(name);
    if (!target) return in_option("--target", target.error());
    line.targets.push_back(*target);
  }
  if (line.command != "prebuild") return {};
  if (line.specs.empty() && line.manifest.empty() && line.from_record.empty())
    return user_error("there is nothing to build: name specs, or --manifest FILE, or --from-record FILE");
  const bool says_what = !line.kernel.empty() || !line.dim_sets.empty() || !line.targets.empty() ||
                         !line.left_out.empty() || !line.schedule.empty() || written.unfused;
  if (line.specs.empty() && says_what)
    return user_error(fmt::format("{} says what is built, and for which kernels, dims and targets",
                                  line.manifest.empty() ? "--from-record" : "--manifest"));
  return {};
}

Result<CommandLine> understand(const Written& written, const std::string& command) {
  CommandLine line;
  line.command = command;
  line.specs = written.specs;
  if (!written.spec.empty()) line.specs.push_back(written.spec);
  line.kernel = written.kernel;
  line.schedule = written.schedule;
  line.output = written.output.value_or("");
  line.inputs = written.inputs_from.value_or("");
  line.json = written.json;
  line.check_only = written.check_only;
  if (!line.output.empty() && line.specs.size() > 1 && command != "bench" && command != "prebuild" &&
      command != "bundle merge")
    return user_error("-o: it is one file, and several were named");
  if (written.chain) {
    Result<std::vector<std::string>> chain = parse_names(*written.chain);
    if (!chain) return in_option("--chain", chain.error());
    line.chain = std::move(*chain);
  }
  if (Status status = understand_dims(written, line); !status) return status.error();
  for (const std::string& text : written.params)
    if (Status status = parse_params(text, line.params); !status) return in_option("--param", status.error());
  line.left_out.insert(written.without.begin(), written.without.end());
  line.taps.insert(written.taps.begin(), written.taps.end());
  line.unfused = written.unfused;
  line.no_unfused = written.no_unfused;
  if (line.unfused && !line.schedule.empty() && command != "prebuild")
    return user_error("--schedule: it names a plan of the fused kernel, and --unfused asks for others");
  for (const std::string& text : written.inputs) {
    auto assignment = parse_assignment(text);
    if (!assignment) return user_error(fmt::format("an input is NAME=FILE.npy: {}", assignment.error().message));
    const auto same_name = [&](const auto& other) { return other.first == assignment->first; };
    if (std::any_of(line.input_files.begin(), line.input_files.end(), same_name))
      return user_error(fmt::format("the input '{}' is given twice", assignment->first));
    line.input_files.push_back(std::move(*assignment));
  }
  if (written.counts) {
    Result<std::vector<int64_t>> counts = parse_counts(*written.counts);
    if (!counts) return in_option("--counts", counts.error());
    line.counts = std::move(*counts);
  }
  if (written.target) {
    const Result<Target> target = parse_target(*written.target);
    if (!target) return in_option("--target", target.error());
    line.target = *target;
  }
  if (written.emit) {
    const Result<Emit> emit = parse_emit(*written.emit);
    if (!emit) return in_option("--emit", emit.error());
    line.emit = *emit;
  }
  const Result<DeviceChoice> device = parse_device(written.device);
  if (!device) return in_option("--device", device.error());
  line.device = *device;
  const Result<int64_t> seed = parse_integer(written.seed, 0, std::numeric_limits<int64_t>::max());
  if (!seed) return in_option("--seed", seed.error());
  line.seed = static_cast<uint64_t>(*seed);
  const Result<jit::DataMode> data = parse_data(written.data);
  if (!data) return in_option("--data", data.error());
  line.data = *data;
  if (written.slack) {
    const Result<int64_t> slack = parse_integer(*written.slack, 0, int64_t{1} << 40);
    if (!slack) return in_option("--slack", slack.error());
    line.slack = *slack;
  }
  if (written.jobs) {
    const Result<int64_t> jobs = parse_integer(*written.jobs, 1, 4096);
    if (!jobs) return in_option("--jobs", jobs.error());
    line.jobs = static_cast<int>(*jobs);
  }
  if (Status status = understand_measuring(written, line); !status) return status.error();
  line.cache_key = written.cache_key;
  if (written.cache_size) {
    line.cache_bytes = parse_bytes(*written.cache_size);
    if (!line.cache_bytes)
      return user_error(fmt::format("--size: '{}' is no number of bytes, as 500M or 2G", *written.cache_size));
  }
  if (Status status = understand_bundles(written, line); !status) return status.error();
  return line;
}

// CLI11 calls an unknown command an unexpected argument; the nearest name says more.
std::string unknown_command(int argc, const char* const* argv) {
  const auto word = [&](int index) { return index < argc && argv[index][0] != '-' ? std::string(argv[index]) : ""; };
  // Commands that have commands of their own.
  static const std::map<std::string, std::vector<std::string>> families = {
      {"cache", {"list", "show", "why", "verify", "prune", "clear", "path"}},
      {"bundle", {"list", "verify", "extract", "merge", "diff", "embed"}},
  };
  const auto family = families.find(word(1));
  const bool of_family = family != families.end();
  const std::vector<std::string> names =
      of_family ? family->second : std::vector<std::string>(std::begin(commands), std::end(commands));
  const std::string given = word(of_family ? 2 : 1), before = of_family ? family->first + " " : "";
  if (given.empty() || std::find(names.begin(), names.end(), given) != names.end()) return "";
  const std::string near = nearest(given, names);
  return fmt::format("there is no command '{}{}'{}", before, given,
                     near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                  : fmt::format("; did you mean '{}{}'?", before, near));
}

// "--kernel" of "--kernel=", for which CLI11 takes the next argument as the value; empty when there is none.
std::string option_without_value(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      return std::string(word.substr(0, word.size() - 1));
  }
  return "";
}

}  // namespace

std::variant<CommandLine, ShowText, UsageError> parse_command_line(int argc, const char* const* argv) {
  // Whether errors are to be JSON has to be known also when nothing else can be understood.
  const bool json =
      std::any_of(argv + 1, argv + argc, [](const char* text) { return std::string_view(text) == "--json"; });
  if (std::string message = unknown_command(argc, argv); !message.empty())
    return UsageError{"", std::move(message), json};
  const std::string valueless = option_without_value(argc, argv);
  const auto no_value = [&](const Parser& parser) {
    return UsageError{parser.command(), fmt::format("{}: there is nothing behind '='", valueless), json};
  };
  Parser parser;
  try {
    parser.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return ShowText{parser.app.help()};  // of the command that was named
  } catch (const CLI::ParseError& error) {
    if (!valueless.empty()) return no_value(parser);
    if (parser.version) return ShowText{"", true};
    return UsageError{parser.command(), error.what(), json};
  }
  if (!valueless.empty()) return no_value(parser);
  if (parser.version) return ShowText{"", true};
  Result<CommandLine> line = understand(parser.written, parser.command());
  if (!line) return UsageError{parser.command(), line.error().message, json};
  return std::move(*line);
}

}  // namespace epifuse::tools
