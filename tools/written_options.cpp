// The only file that includes CLI11; its exceptions end here.
#include "tools/written_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tools/command_examples.h"

namespace epifuse::tools {
namespace {

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

void add_bundles(CLI::App& app, Written& written) {
  add_repeated(app, "--bundle", written.bundles, "a bundle of prebuilt kernels, looked into before the cache")
      ->type_name("FILE");
}

// Where kernels come from.
void add_source_options(CLI::App& app, Written& written) {
  add_bundles(app, written);
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

// Nothing that says how kernels are measured has a meaning for runs that were; and the other way round. Empty: all is
// well.
std::string check_compare(const CLI::App& bench) {
  const bool compares = bench.get_option("--compare")->count() > 0;
  for (const CLI::Option* option : bench.get_options()) {
    const std::string name = option->get_name();
    const bool goes_with_both = option->get_positional() || name == "--json" || name == "--compare";
    if (goes_with_both || option->count() == 0 || (name == "--tolerance") == compares) continue;
    return compares ? fmt::format("{}: --compare measures nothing, and takes --tolerance and --json alone", name)
                    : "--tolerance: it is for --compare";
  }
  return "";
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
    explain.add_flag("--all-plans", written.all_plans, "all plans that tune chooses from, not those tried unasked");
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
    bench.add_flag("--host", written.host, "what launching and binding cost the host instead");
    bench.add_option("-o", written.output, "a file for the JSON document")->type_name("FILE");
    bench.add_flag("--compare", written.compare, "compares two earlier runs; exit code 5 when the second is slower");
    bench.add_option("--tolerance", written.tolerance, "of --compare: percent that are no difference yet; 3")
        ->type_name("PERCENT");
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
    add_bundles(why, written);
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

  // What is to be said of a flag with a value behind '=', of which CLI11 takes some; empty: there is none.
  std::string flag_with_value(int argc, const char* const* argv) const {
    const CLI::App* command = &app;
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
      const std::string_view word = argv[i];
      const std::string name(word.substr(0, word.find('=')));
      if (name == word || !name.starts_with("--")) continue;
      const CLI::Option* const option = command->get_option_no_throw(name);
      if (option && option->get_items_expected_max() == 0)
        return fmt::format("{}: it takes no value, and has '{}' behind '='", name, word.substr(name.size() + 1));
    }
    return "";
  }
};

}  // namespace

WrittenLine read_written(int argc, const char* const* argv) {
  Parser parser;
  WrittenLine line;
  try {
    parser.app.parse(argc, argv);
    if (parser.app.got_subcommand("bench")) line.problem = check_compare(*parser.app.get_subcommand("bench"));
  } catch (const CLI::CallForHelp&) {
    line.help = parser.app.help();
  } catch (const CLI::ParseError& error) {
    line.problem = error.what();
  }
  if (const std::string flag = parser.flag_with_value(argc, argv); !line.help && !flag.empty()) line.problem = flag;
  line.command = parser.command();
  line.version = parser.version;
  line.written = std::move(parser.written);
  return line;
}

}  // namespace epifuse::tools
