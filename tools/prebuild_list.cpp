#include "tools/prebuild_list.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <set>

#include "compiler/semantics/resolve.h"
#include "jit/bundled_kernels.h"
#include "jit/tuned_plans.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using ProgramPtr = std::shared_ptr<const Program>;

constexpr size_t between_notes = 1000;

// Plans kernels into a list, each request once.
class Lister {
 public:
  Lister(const std::string& plans, Surroundings& world)
      : tuned_(std::make_shared<jit::TunedPlans>(world.disk, plans, world.log)) {}

  // The kernel, and with `unfused` those of its unfused form behind it.
  void add(const ProgramPtr& program, const std::string& kernel, const CompilerOptions& options, bool unfused) {
    Diagnostics diagnostics;
    const std::optional<PlannedKernel> planned = tuned_->plan(*program, kernel, options, diagnostics);
    if (!planned) return fail(what(*program, kernel, options), diagnostics.print());
    // What there is to be said is said.
    CompilerOptions again = options;
    again.tuned = [tuned = planned->tuned](const std::string&) { return tuned; };
    add(*planned, [=] {
      Diagnostics ignored;
      return *plan_kernel(*program, kernel, again, ignored);
    });
    if (unfused) add_stages(program, kernel, options);
  }

  // The kernels of the unfused form alone.
  void add_stages(const ProgramPtr& program, const std::string& kernel, CompilerOptions options) {
    options.schedule.clear();
    options.tuned = nullptr;
    Diagnostics diagnostics;
    const std::optional<PlannedUnfused> planned = plan_unfused(*program, kernel, options, diagnostics);
    if (!planned) return fail(what(*program, kernel, options) + ", unfused", diagnostics.print());
    for (size_t i = 0; i < planned->stages.size(); ++i) {
      add(planned->stages[i], [=] {
        Diagnostics ignored;
        return std::move(plan_unfused(*program, kernel, options, ignored)->stages[i]);
      });
    }
  }

  void fail(std::string what, std::string message, ErrorKind kind = ErrorKind::user) {
    list_.failures.push_back({std::move(what), std::move(message), kind});
  }

  void note_files(const Program& program) {
    for (const Program::Unit& unit : program.units) list_.files.insert(unit.tree.source->name);
  }

  PrebuildList take() { return std::move(list_); }

 private:
  void add(const PlannedKernel& planned, std::function<PlannedKernel()> again) {
    if (!requests_.insert(planned.request).second) return;
    ListedKernel kernel{jit::label_of(planned), jit::source_of(planned), {}, {}, std::move(again)};
    for (const ir::Dimension& dim : planned.graph.dims) {
      if (dim.kind == ir::DimKind::dynamic) kernel.dyns.push_back(dim.name);
      if (dim.kind == ir::DimKind::grouped && dim.cut_by >= 0)
        kernel.groups.push_back({dim.name, planned.graph.dims[static_cast<size_t>(dim.cut_by)].name});
    }
    list_.kernels.push_back(std::move(kernel));
    if (list_.kernels.size() % between_notes == 0) note(fmt::format("{} kernels listed so far", list_.kernels.size()));
  }

  static std::string what(const Program& program, const std::string& kernel, const CompilerOptions& options) {
    cache::BundleLabel label;
    label.kernel = kernel;
    label.target = options.target.name;
    label.dims = options.dims;
    label.left_out = options.left_out;
    label.schedule = options.schedule;
    return program.main().source->name + ": " + cache::describe(label);
  }

  std::shared_ptr<jit::TunedPlans> tuned_;
  std::set<std::string> requests_;
  PrebuildList list_;
};

// Of the names that a manifest has for a whole file, those that one kernel knows.
struct KnownNames {
  std::set<std::string> dims, optional;
};
KnownNames names_of(const ir::Graph& graph) {
  KnownNames known;
  for (const ir::Dimension& dim : graph.dims) known.dims.insert(dim.name);
  for (const auto& input : graph.inputs) known.optional.insert(input.tensor.name);
  for (const auto& output : graph.outputs) known.optional.insert(output.tensor.name);
  return known;
}

// A spec's kernels with what is known of each; mistakes are reported.
class SpecKernels {
 public:
  SpecKernels(const ManifestSpec& spec, const Program& program, Lister& lister) {
    const std::vector<std::string> all = kernel_names(program);
    for (const std::string& name : spec.kernels.empty() ? all : spec.kernels) {
      if (std::find(all.begin(), all.end(), name) == all.end()) {
        const std::string near = nearest(name, all);
        lister.fail(spec.spec, fmt::format("there is no kernel '{}' in it{}", name,
                                           near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
        continue;
      }
      Diagnostics diagnostics;
      const std::optional<ir::Graph> graph = resolve(program, name, {}, diagnostics);
      if (graph)
        kernels_.emplace_back(name, names_of(*graph));
      else
        lister.fail(fmt::format("{}: kernel '{}'", spec.spec, name), diagnostics.print());
    }
    check(spec, lister);
  }

  const std::vector<std::pair<std::string, KnownNames>>& kernels() const { return kernels_; }

  // Whether every name is one of a kernel's. A set with a name that is not was reported, and is not built without it.
  bool knows(const std::map<std::string, int64_t>& dims, const std::set<std::string>& without) const {
    return std::all_of(dims.begin(), dims.end(),
                       [&](const auto& dim) { return known(&KnownNames::dims, dim.first); }) &&
           std::all_of(without.begin(), without.end(),
                       [&](const std::string& name) { return known(&KnownNames::optional, name); });
  }

 private:
  // A name that no kernel has is a mistake, and not a number that nobody uses.
  void check(const ManifestSpec& spec, Lister& lister) const {
    std::set<std::string> unknown;
    for (const auto& set : spec.dims)
      for (const auto& [name, value] : set)
        if (!known(&KnownNames::dims, name)) unknown.insert(fmt::format("no kernel of it has a dimension '{}'", name));
    for (const auto& set : spec.without)
      for (const std::string& name : set)
        if (!known(&KnownNames::optional, name))
          unknown.insert(fmt::format("no kernel of it has an input or output '{}'", name));
    if (kernels_.empty()) return;  // said already
    for (const std::string& message : unknown) lister.fail(spec.spec, message);
  }

  bool known(std::set<std::string> KnownNames::*names, const std::string& name) const {
    return std::any_of(kernels_.begin(), kernels_.end(),
                       [&](const auto& kernel) { return (kernel.second.*names).contains(name); });
  }

  std::vector<std::pair<std::string, KnownNames>> kernels_;
};

template <class T>
std::vector<T> or_one(const std::vector<T>& list) {
  return list.empty() ? std::vector<T>{T()} : list;
}

void list_spec(const ManifestSpec& spec, Lister& lister, Surroundings& world) {
  Diagnostics diagnostics;
  Result<Program> read = read_spec(spec.spec, world.disk, diagnostics);
  if (!read) return lister.fail(spec.spec, read.error().message, read.error().kind);
  if (diagnostics.has_errors()) return lister.fail(spec.spec, diagnostics.print());
  const auto program = std::make_shared<const Program>(*std::move(read));
  lister.note_files(*program);
  const SpecKernels of_spec(spec, *program, lister);
  for (const auto& [kernel, known] : of_spec.kernels())
    for (const Target& target : spec.targets)
      for (const auto& dims : or_one(spec.dims))
        for (const auto& without : or_one(spec.without)) {
          if (!of_spec.knows(dims, without)) continue;
          CompilerOptions options;
          options.target = target;
          options.schedule = spec.schedule;
          for (const auto& [name, value] : dims)
            if (known.dims.contains(name)) options.dims[name] = value;
          for (const std::string& name : without)
            if (known.optional.contains(name)) options.left_out.insert(name);
          lister.add(program, kernel, options, spec.unfused);
        }
}

}  // namespace

PrebuildList list_kernels(const Manifest& manifest, Surroundings& world) {
  Lister lister(manifest.plans, world);
  for (const ManifestSpec& spec : manifest.specs) list_spec(spec, lister, world);
  return lister.take();
}

PrebuildList list_kernels(const std::vector<jit::RecordedRequest>& record, const std::string& plans,
                          Surroundings& world) {
  Lister lister(plans, world);
  for (const jit::RecordedRequest& request : record) {
    const Result<Target> target = parse_target(request.target);
    if (!target) {
      lister.fail(request.spec, target.error().message);
      continue;
    }
    MemorySource files(request.files);
    Diagnostics diagnostics;
    const auto program =
        std::make_shared<const Program>(load_program(request.spec, request.files.at(request.spec), files, diagnostics));
    if (diagnostics.has_errors()) {
      lister.fail(request.spec, diagnostics.print());
      continue;
    }
    CompilerOptions options;
    options.dims = request.dims;
    options.left_out = request.left_out;
    options.taps = request.taps;
    options.target = *target;
    options.schedule = request.schedule;
    // The fused kernel has a line of its own, if it was asked for.
    if (request.unfused)
      lister.add_stages(program, request.kernel, options);
    else
      lister.add(program, request.kernel, options, false);
  }
  return lister.take();
}

}  // namespace epifuse::tools
