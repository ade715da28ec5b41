#include "tools/explanation.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "compiler/lowering/unfuse.h"
#include "tools/cost_text.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

Result<Explanation::Unfused> unfused_cost(const ir::Graph& lowered, const ir::LaunchSizes& sizes,
                                          const TargetFigures& figures) {
  Explanation::Unfused made;
  const lowering::Unfused unfused = lowering::unfuse(lowered);
  made.kernels = unfused.stages.size();
  for (const lowering::UnfusedStage& stage : unfused.stages) {
    const Result<ir::Work> work = ir::least_work(stage.graph, sizes);
    if (!work) return work.error();
    made.bytes += work->bytes();
    made.hot_ms += ir::floor_of(*work, figures, figures.multiprocessors, figures.hot_clock_mhz).ms();
  }
  return made;
}

std::string_view role_name(TensorRole role) {
  switch (role) {
    case TensorRole::input: return "input";
    case TensorRole::output: return "output";
    case TensorRole::group_sizes: return "groups";
  }
  return "";
}

bool has_product(const Explanation& e) { return e.work.flop() > 0; }

std::string work_text(const Explanation& e) {
  const ir::Work& work = e.work;
  std::string text;
  if (has_product(e))
    text +=
        fmt::format("  products         {} of {}-bit operands\n", flop_text(work.flop()), work.flop_16 > 0 ? 16 : 8);
  text += fmt::format("  memory           at least {} read and {} written\n", bytes_text(work.read),
                      bytes_text(work.written));
  return text;
}

// Times of a hot card, with those at full clock in brackets where they differ.
std::string floors_text(const Explanation& e) {
  const auto both = [](double hot, double full) {
    return hot == full ? fmt::format("{:.3f} ms", hot) : fmt::format("{:.3f} ms ({:.3f})", hot, full);
  };
  std::string text = fmt::format("  floor            {}: ", both(e.hot.ms(), e.full.ms()));
  if (has_product(e))
    text +=
        fmt::format("tensor cores {}, memory {:.3f} ms\n", both(e.hot.tensor_ms, e.full.tensor_ms), e.hot.memory_ms);
  else
    text += "memory\n";
  if (e.work.pass_bytes > 0) {
    const double saved = e.work.product_bytes + e.work.pass_bytes - e.work.bytes();
    text += fmt::format("  product + pass   {}: what one ideal memory pass behind a product would take\n",
                        both(e.hot.two_launches_ms, e.full.two_launches_ms));
    text += fmt::format("  fusion saves     {} and {:.3f} ms, {:.1f} % of that\n", bytes_text(saved),
                        e.hot.two_launches_ms - e.hot.ms(), 100 * (1 - e.hot.ms() / e.hot.two_launches_ms));
  }
  text += fmt::format("  unfused form     {} kernel{}, {}, at least {:.3f} ms\n", e.unfused.kernels,
                      e.unfused.kernels == 1 ? "" : "s", bytes_text(e.unfused.bytes), e.unfused.hot_ms);
  return text;
}

std::string buffers_text(const Explanation& e) {
  std::string text = fmt::format("  {:16} {:7} {:5} {:24} {:>10} {:>10} {:>10}\n", "buffer", "", "type", "shape",
                                 "size", "read", "written");
  for (const ir::BufferWork& made : e.work.buffers)
    text += fmt::format("  {:16} {:7} {:5} {:24} {:>10} {:>10} {:>10}\n", made.buffer.name, role_name(made.buffer.role),
                        storage_name(made.buffer.storage), fmt::format("[{}]", fmt::join(made.extents, ", ")),
                        bytes_text(static_cast<double>(made.bytes)), made.read == 0 ? "-" : bytes_text(made.read),
                        made.written == 0 ? "-" : bytes_text(made.written));
  return text;
}

// Plans with one reason in one line.
std::string impossible_text(const Explanation& e) {
  std::string text;
  const std::vector<lowering::ImpossiblePlan>& all = e.taken.planned.lowered.impossible;
  for (size_t first = 0; first < all.size(); ++first) {
    const std::string& why = all[first].why;
    std::string names;
    bool is_said = false;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].why != why) continue;
      is_said = is_said || i < first;
      names += (names.empty() ? "" : ", ") + all[i].schedule;
    }
    if (!is_said) text += fmt::format("                   not {}: {}\n", names, why);
  }
  return text;
}

std::string plan_text(const Explanation& e) {
  const lowering::KernelPlan& plan = e.taken.plan();
  std::string text = fmt::format("  plan             {}: {}\n", lowering::schedule_name(plan.schedule), e.taken.why);
  if (plan.schedule.family == lowering::Family::pointwise)
    return text + fmt::format("                   {} launch{}\n", plan.pointwise.size(),
                              plan.pointwise.size() == 1 ? "" : "es");
  const lowering::Schedule& schedule = plan.schedule;
  text += fmt::format("                   {} of {} bytes of shared memory", plan.shared_bytes,
                      plan.target.shared_bytes_per_block);
  if (schedule.family == lowering::Family::gemm)
    text += fmt::format(", {} stages; registers of a thread {} (producer), {} (consumers)", schedule.stages,
                        schedule.registers_producer, schedule.registers_consumer);
  text += '\n';
  if (e.listed.size() > 1 && e.listed.front().cost > 0) {
    constexpr size_t most_in_a_line = 8;
    const bool in_a_line = e.listed.size() <= most_in_a_line;
    text += "                   cost by the model, relative to the first:";
    for (const lowering::KernelPlan& other : e.listed)
      text +=
          fmt::format("{}{} {:.3f}", in_a_line ? &other == &e.listed.front() ? " " : ", " : "\n                     ",
                      lowering::schedule_name(other.schedule), other.cost / e.listed.front().cost);
    text += '\n';
  }
  return text + impossible_text(e);
}

std::string compiled_text(const Explanation& e) {
  if (!e.taken.compiled)
    return fmt::format("  compiled         not yet{}{}\n", e.taken.may_be_left.empty() ? "" : ": ",
                       e.taken.may_be_left);
  const KernelImage& image = e.taken.compiled->image;
  std::string text = fmt::format("  compiled         {} registers at entry, {} bytes of spills{}\n", image.registers,
                                 image.spill_bytes, image.wgmma_serialized ? ", wgmma serialised" : "");
  for (const jit::RefusedPlan& refused : e.taken.compiled->refused)
    text += fmt::format("  refused          {}: it {}\n", refused.schedule, refused.reason);
  for (const std::string& warning : image.warnings) text += fmt::format("  warning          {}\n", warning);
  return text;
}

Json plan_json(const Explanation& e) {
  const lowering::KernelPlan& plan = e.taken.plan();
  Json shared = Json::array(), others = Json::array();
  for (const lowering::SharedBuffer& buffer : plan.shared)
    shared.push_back({{"name", buffer.name}, {"bytes", buffer.bytes}});
  for (const lowering::KernelPlan& other : e.listed)
    others.push_back({{"plan", lowering::schedule_name(other.schedule)}, {"cost", other.cost}});
  Json impossible = Json::array();
  for (const lowering::ImpossiblePlan& one : e.taken.planned.lowered.impossible)
    impossible.push_back({{"plan", one.schedule}, {"why", one.why}});
  Json json = {{"plan", lowering::schedule_name(plan.schedule)},
               {"why", e.taken.why},
               {"may_be_left", e.taken.compiled || e.taken.may_be_left.empty() ? Json() : Json(e.taken.may_be_left)},
               {"shared_bytes", plan.shared_bytes},
               {"shared_bytes_limit", plan.target.shared_bytes_per_block},
               {"shared", std::move(shared)}};
  if (plan.schedule.family == lowering::Family::gemm)
    json.update({{"stages", plan.schedule.stages},
                 {"registers_producer", plan.schedule.registers_producer},
                 {"registers_consumer", plan.schedule.registers_consumer}});
  json["plans"] = std::move(others);
  json["impossible"] = std::move(impossible);
  return json;
}

Json buffers_json(const Explanation& e) {
  Json list = Json::array();
  for (const ir::BufferWork& made : e.work.buffers)
    list.push_back({{"name", made.buffer.name},
                    {"role", role_name(made.buffer.role)},
                    {"storage", storage_name(made.buffer.storage)},
                    {"shape", made.extents},
                    {"bytes", made.bytes},
                    {"read_bytes", made.read},
                    {"written_bytes", made.written}});
  return list;
}

}  // namespace

Result<Explanation> explain_kernel(const SizedKernel& kernel, TakenPlan taken) {
  const PlannedKernel& planned = taken.planned;
  const TargetFigures& figures = figures_of(planned.lowered.plans.front().target);
  Explanation made;
  made.kernel = kernel.name;
  made.target = planned.lowered.plans.front().target;
  made.dims = number_list(planned.graph, kernel.sizes);
  made.sizes = kernel.sizes;
  Result<ir::Work> work = ir::least_work(planned.graph, kernel.sizes);
  if (!work) return work.error();
  made.work = *std::move(work);
  made.full_clock_mhz = figures.full_clock_mhz;
  made.hot_clock_mhz = figures.hot_clock_mhz;
  made.full = ir::floor_of(made.work, figures, figures.multiprocessors, figures.full_clock_mhz);
  made.hot = ir::floor_of(made.work, figures, figures.multiprocessors, figures.hot_clock_mhz);
  const Result<Explanation::Unfused> unfused = unfused_cost(planned.lowered.graph, kernel.sizes, figures);
  if (!unfused) return unfused.error();
  made.unfused = *unfused;
  made.listed = planned.lowered.plans;
  made.taken = std::move(taken);
  return made;
}

std::string explanation_text(const Explanation& e) {
  const TargetFigures& figures = figures_of(e.target);
  std::string text = fmt::format("{} for {}: {}\n", e.kernel, e.target.name, numbers_text(e.dims, e.sizes));
  text +=
      fmt::format("  on               {}, {} multiprocessors at {:.0f} MHz, hot from bf16 products ({:.0f} MHz cold)\n",
                  figures.card, figures.multiprocessors, e.hot_clock_mhz, e.full_clock_mhz);
  return text + work_text(e) + floors_text(e) + plan_text(e) + compiled_text(e) + buffers_text(e);
}

std::string explanation_json(const Explanation& e) {
  const TargetFigures& figures = figures_of(e.target);
  Json json = {{"kernel", e.kernel},
               {"target", e.target.name},
               {"card", figures.card},
               {"multiprocessors", figures.multiprocessors}};
  json.update(*read_json(sizes_json(e.dims, e.sizes)));
  json.update(*read_json(work_json(e.work)));
  json["floor"] = {{"hot", *read_json(floor_json(e.hot, e.hot_clock_mhz))},
                   {"full_clock", *read_json(floor_json(e.full, e.full_clock_mhz))}};
  json["unfused"] = {{"kernels", e.unfused.kernels}, {"bytes", e.unfused.bytes}, {"hot_ms", e.unfused.hot_ms}};
  json["plan"] = plan_json(e);
  if (e.taken.compiled) {
    json["compiled"] = *read_json(kernel_json(*e.taken.compiled));
  } else {
    json["compiled"] = nullptr;
  }
  json["buffers"] = buffers_json(e);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace epifuse::tools
