// What an epilogue stores: each sink before, in and behind the loop over blocks.
#include <algorithm>
#include <fmt/format.h>

#include "compiler/codegen/emit_quantised.h"
#include "compiler/codegen/emit_reductions.h"
#include "compiler/codegen/epilogue_emitter.h"
#include "compiler/codegen/expression.h"

namespace epifuse::codegen {

std::string EpilogueEmitter::scales_name(const Sink& sink, size_t part) const {
  return fmt::format("scales_{}_{}", output_tensor(sink).name, part);
}

bool EpilogueEmitter::stages_scales(const Sink& sink) {
  return sink.kind == SinkKind::mx_transposed && sink.gathered_scales > 1;
}

bool EpilogueEmitter::staged() const {
  for (const Sink& sink : plan_.epilogue.sinks)
    if (stages_scales(sink) || meets_in_scratch(sink) || sink.kind == SinkKind::quantised) return true;
  return false;
}

void EpilogueEmitter::open_sinks() {
  open_old_values();
  for (const Sink& sink : plan_.epilogue.sinks) {
    if (is_reduction(sink.kind)) out_ += open_reduction(graph_, plan_, sink);
    if (sink.kind == SinkKind::quantised) out_ += open_quantised(graph_, plan_, sink, maximum_of(sink));
    if (!is_mx(sink.kind) || alternates(sink)) continue;
    for (size_t part = 0; part < sink.values.size(); ++part) {
      const std::string name = scales_name(sink, part);
      if (stages_scales(sink))
        line("    const GatheredColumnScales {}{{scratch + {}}};", name,
             sink.scratch + static_cast<int>(part) * plan_.part_tile() * 4);
      else if (sink.kind == SinkKind::mx_transposed)
        line("    SingleColumnScales {};", name);
      else if (sink.gathered_scales > 1)
        line("    GatheredRowScales<{}> {};", sink.gathered_scales, name);
      else if (joins_scales(sink))
        line("    JoinedRowScales{} {};", blocks() > 4 ? "<true>" : "<>", name);
      else
        line("    SingleRowScales {};", name);
    }
  }
  if (staged()) line("    warpgroup_sync();  // the tile before has been read");
}

bool EpilogueEmitter::joins_scales(const Sink& sink) const {
  return sink.kind == SinkKind::mx_rows && !alternates(sink) && sink.gathered_scales == 1 &&
         (plan_.leaves_registers() || plan_.schedule.places_anew) &&
         (sink.values.size() == 1 || plan_.deal == Deal::halves);
}

void EpilogueEmitter::finish_row_scales() {
  if (std::none_of(plan_.epilogue.sinks.begin(), plan_.epilogue.sinks.end(),
                   [&](const Sink& sink) { return joins_scales(sink); }))
    return;
  line("    const int existing = min({}, (p.columns - first_column + block_columns - 1) / block_columns);", blocks());
  for (const Sink& sink : plan_.epilogue.sinks) {
    if (!joins_scales(sink)) continue;
    const std::string& name = output_tensor(sink).name;
    for (size_t part = 0; part < sink.values.size(); ++part)
      line("    {}.finish(p.scales_{}, p.scale_pitch_{}, lane, rows_{}, ({}) / block_columns, {}, existing);",
           scales_name(sink, part), name, name, sink.place,
           column_in(sink.values.size() == 2, static_cast<int>(part), "first_column"),
           leaves_out_blocks() ? "blocks(p, first_column)" : std::to_string(blocks()));
  }
}

std::string EpilogueEmitter::maximum_of(const Sink& sink) const {
  if (sink.quantised.amax < 0) return "";
  const EpilogueNode& node = plan_.epilogue.nodes[static_cast<size_t>(sink.quantised.amax)];
  return node.kind == EpilogueNode::Kind::number ? spell_number(node.number) : argument(sink.quantised.amax);
}

void EpilogueEmitter::flush_sinks() {
  if (!staged()) return;
  line("    warpgroup_sync();");
  const auto column_of_part = [&](int part, std::string_view column) {
    return column_in(true, part, std::string(column));
  };
  for (const Sink& sink : plan_.epilogue.sinks)
    if (sink.kind == SinkKind::quantised)
      out_ += flush_quantised(graph_, plan_, sink, [&](int part, std::string_view column) {
        return sink.values.size() == 2 ? column_of_part(part, column) : std::string(column);
      });
  if (std::none_of(plan_.epilogue.sinks.begin(), plan_.epilogue.sinks.end(),
                   [](const Sink& sink) { return stages_scales(sink) || meets_in_scratch(sink); }))
    return;
  line("    for (int index = ptx::thread_index_now() & 127; index < {}; index += 128) {{", plan_.part_tile());
  line("      const int column = first_column + index;");
  for (const Sink& sink : plan_.epilogue.sinks) {
    const auto column_of = [&](int part, std::string_view column) {
      return column_in(sink.values.size() == 2, part, std::string(column));
    };
    if (meets_in_scratch(sink)) out_ += flush_reduction(graph_, plan_, sink, column_of);
    if (!stages_scales(sink)) continue;
    const std::string& name = output_tensor(sink).name;
    for (size_t part = 0; part < sink.values.size(); ++part)
      line("      {}.flush(p.scales_{}, p.scale_pitch_{}, tile.rows[{}], column < p.columns, {}, index);",
           scales_name(sink, part), name, name, sink.place, column_of(static_cast<int>(part), "column"));
  }
  line("    }}");
}

void EpilogueEmitter::clear_gaps() {
  std::string text;
  for (const Sink& sink : plan_.epilogue.sinks) {
    if (sink.kind != SinkKind::mx_transposed || plan_.places[static_cast<size_t>(sink.place)].alignment == 1) continue;
    const std::string& name = output_tensor(sink).name;
    for (size_t part = 0; part < sink.values.size(); ++part)
      text += fmt::format("        clear_codes_of_gap<{}{}>(p.out_{}, p.pitch_{}, rows_{}, columns, {});\n",
                          truth(plan_.stores_4_rows(sink)), apart(sink) == 1 ? "" : ", 2", name, name, sink.place,
                          output_column(sink, static_cast<int>(part)));
  }
  if (text.empty()) return;
  line("    if (tile.valid_rows < tile_rows) {{");
  line("#pragma unroll 1");
  line("      for (int block = 0; block < {}; ++block) {{", blocks());
  line("        const OwnColumns columns(lane, first_column + block * block_columns, p.columns);");
  out_ += text;
  line("      }}\n    }}");
}

bool EpilogueEmitter::reads_ahead(const Sink& sink) const {
  return sink.kind == SinkKind::rows && sink.accumulate && sink.values.size() == 1 && !is_pass() &&
         (plan_.natural_rows() || plan_.leaves_registers());
}

int64_t EpilogueEmitter::count_read_ahead() const {
  return std::count_if(plan_.epilogue.sinks.begin(), plan_.epilogue.sinks.end(),
                       [&](const Sink& sink) { return reads_ahead(sink); });
}

void EpilogueEmitter::open_old_values() {
  if (!reads_any_ahead()) return;
  line("    OwnColumns next_columns(lane, first_column, p.columns);");
  for (const Sink& sink : plan_.epilogue.sinks) {
    if (!reads_ahead(sink)) continue;
    const std::string& name = output_tensor(sink).name;
    line("    OldValues<{}, {}> old_{};", tag(output_tensor(sink)),
         count_read_ahead() == 1 && plan_.leaves_registers() ? 4 : 2, name);
    line("    old_{}.load({}, {}, p.pitch_{}, rows_{}, next_columns, {});", name,
         guards_empty(sink) ? "tile.depth != 0" : "true", out_buffer(sink), name, sink.place,
         output_column(sink, 0, "next_columns.first"));
  }
}

void EpilogueEmitter::add_to_old_values(const Sink& sink) {
  const std::string& name = output_tensor(sink).name;
  line("        old_{}.add({}, value0, {}, p.pitch_{}, rows_{}, columns, {}, block + 1 < {}, next_columns, {});", name,
       guards_empty(sink) ? "tile.depth != 0" : "true", out_buffer(sink), name, sink.place, output_column(sink, 0),
       leaves_out_blocks() ? "blocks(p, first_column)" : std::to_string(blocks()),
       output_column(sink, 0, "next_columns.first"));
}

void EpilogueEmitter::spell_sinks(const SinkGroup& group, int part) {
  for (const Sink* sink : group.sinks)
    if (!alternates(*sink)) spell_sink(*sink, part);
}

void EpilogueEmitter::spell_alternating(const SinkGroup& group) {
  for (const Sink* sink : group.sinks)
    if (alternates(*sink)) spell_alternating(*sink);
}

bool EpilogueEmitter::needs_cleared_rows(const SinkGroup& group) const {
  for (const Sink* sink : group.sinks)
    if (plan_.places[static_cast<size_t>(sink->place)].alignment > 1 || sink->kind == SinkKind::mx_transposed ||
        needs_rows_cleared(sink->kind) || (sink->kind == SinkKind::quantised && sink->quantised.block_rows > 1))
      return true;
  return rotates(group, true);
}

bool EpilogueEmitter::needs_cleared_columns(const SinkGroup& group) const {
  for (const Sink* sink : group.sinks)
    if (plan_.ragged_columns &&
        (sink->kind == SinkKind::mx_rows || (sink->kind == SinkKind::quantised && sink->quantised.block_columns > 1)))
      return true;
  return plan_.ragged_columns && rotates(group, false);
}

std::string EpilogueEmitter::output_column(const Sink& sink, int part, const std::string& first) const {
  const std::string column = column_in(sink.values.size() == 2, part, first);
  if (!plan_.places[static_cast<size_t>(sink.place)].local || sink.pointers) return column;
  return fmt::format("tile.group * {} + {}", sink.values.size() == 2 ? "(2 * p.columns)" : "p.columns", column);
}

std::string EpilogueEmitter::joined_offset(const Sink& sink) const {
  const bool local = plan_.places[static_cast<size_t>(sink.place)].local;
  return local ? "tile.group * (2 * p.columns) + " : "";
}

void EpilogueEmitter::spell_sink(const Sink& sink, int part) {
  if (is_reduction(sink.kind)) {
    out_ += put_reduction(graph_, plan_, sink, part);
    return;
  }
  const ir::Tensor& tensor = output_tensor(sink);
  const std::string& name = tensor.name;
  const std::string rows = fmt::format("rows_{}", sink.place), element(storage_name(tensor.type.element));
  const std::string column = output_column(sink, part);
  const int step = apart(sink);
  const std::string guard = guards_empty(sink) ? "if (tile.depth != 0) " : "";
  switch (sink.kind) {
    case SinkKind::rows:
      if (reads_ahead(sink)) {
        add_to_old_values(sink);
        break;
      }
      line("        {}store_rows<{}{}>(value{}, {}, p.pitch_{}, {}, columns, {});", guard, tag(tensor),
           sink.accumulate ? ", true" : "", part, out_buffer(sink), name, rows, column);
      break;
    case SinkKind::transposed:
      line("        {}store_transposed<{}, {}{}>(value{}, {}, p.pitch_{}, {}, columns, {});", guard, tag(tensor),
           truth(plan_.stores_4_rows(sink)), transposed_options(sink, step), part, out_buffer(sink), name, rows,
           column);
      break;
    case SinkKind::mx_rows: spell_mx(sink, part, fmt::format("store_rows_mx<{}>", element), rows, column); break;
    case SinkKind::mx_transposed:
      spell_mx(sink, part,
               fmt::format("store_transposed_mx<{}, {}{}>", element, truth(plan_.stores_4_rows(sink)),
                           step == 1 ? "" : ", 2"),
               rows, column);
      break;
    case SinkKind::quantised:
      out_ += put_quantised(
          graph_, plan_, sink,
          {part, column, column_in(sink.values.size() == 2, part, "columns.first"), step, plan_.stores_4_rows(sink)});
      break;
    default: break;
  }
}

std::string EpilogueEmitter::transposed_options(const Sink& sink, int step) {
  if (step == 1) return sink.accumulate ? ", true" : "";
  return fmt::format(", {}, {}", truth(sink.accumulate), step);
}

void EpilogueEmitter::spell_mx(const Sink& sink, int part, const std::string& function, const std::string& rows,
                               const std::string& column) {
  const std::string& name = output_tensor(sink).name;
  line("        {}(value{}, p.out_{}, p.pitch_{}, p.scales_{}, p.scale_pitch_{}, {}, lane, {}, columns, {}, block);",
       function, part, name, name, name, name, scales_name(sink, static_cast<size_t>(part)), rows, column);
}

void EpilogueEmitter::spell_alternating(const Sink& sink) {
  if (sink.kind == SinkKind::quantised) {
    const std::string column = "2 * columns.first", offset = joined_offset(sink);
    out_ += put_quantised(graph_, plan_, sink, {0, offset + column, column, 1, plan_.stores_4_rows(sink)});
    return;
  }
  const ir::Tensor& tensor = output_tensor(sink);
  const std::string& name = tensor.name;
  if (sink.kind == SinkKind::rows)
    line("        {}store_rows_alternating<{}{}>(value0, value1, {}, p.pitch_{}, rows_{}, columns);",
         guards_empty(sink) ? "if (tile.depth != 0) " : "", tag(tensor), sink.accumulate ? ", true" : "",
         out_buffer(sink), name, sink.place);
  else
    line(
        "        store_rows_mx_alternating<{}, {}>(value0, value1, p.out_{}, p.pitch_{}, p.scales_{}, "
        "p.scale_pitch_{}, lane, rows_{}, columns);",
        storage_name(tensor.type.element), plan_.gemm.piece, name, name, name, name, sink.place);
}

}  // namespace epifuse::codegen
