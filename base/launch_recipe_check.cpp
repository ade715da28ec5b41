// LaunchRecipe::validate: what must hold of every recipe, so that the runtime can use one without looking again.
//
// It runs on every recipe that is read (files are anyone's) and on every recipe that the compiler makes.
#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string>

#include "base/launch_recipe.h"
#include "base/recipe_limits.h"

namespace epifuse {
namespace {

using recipe_limits::longest_name, recipe_limits::most_axes, recipe_limits::most_entries;
constexpr uint32_t most_threads = 1024;
constexpr uint32_t most_shared_bytes = 256 * 1024;

constexpr size_t tensor_map_alignment = 64;

enum class Allowed { sizes, sizes_and_strides, all };

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > longest_name) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool later = (c >= '0' && c <= '9') || c == '.';
    if (!letter && !(later && i > 0)) return false;
  }
  return true;
}

bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

uint32_t map_element_bytes(TensorMapType type) {
  switch (type) {
    case TensorMapType::u8: return 1;
    case TensorMapType::f16:
    case TensorMapType::bf16: return 2;
    case TensorMapType::f32: return 4;
  }
  return 0;
}

uint32_t swizzle_span(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return 0;
    case Swizzle::b32: return 32;
    case Swizzle::b64: return 64;
    case Swizzle::b128: return 128;
  }
  return 0;
}

class Checker {
 public:
  explicit Checker(const LaunchRecipe& recipe) : recipe_(recipe) {}

  Status run() {
    require(is_name(recipe_.kernel), "kernel", "must be a name");
    require(is_name(recipe_.target), "target", "must be a name");
    counted(recipe_.tensors.size(), "tensors");
    counted(recipe_.symbols.size(), "symbols");
    counted(recipe_.params.size(), "params");
    counted(recipe_.maps.size(), "maps");
    counted(recipe_.steps.size(), "steps");
    require(!recipe_.steps.empty(), "steps", "must not be empty");
    if (error_) return *error_;

    collect_symbols();
    for (size_t i = 0; i < recipe_.tensors.size(); ++i) tensor(recipe_.tensors[i], fmt::format("tensors[{}]", i));
    std::set<std::string> params;
    for (const RecipeParam& p : recipe_.params) {
      require(is_name(p.name) && params.insert(p.name).second, "params", "must have different names");
    }
    for (size_t i = 0; i < recipe_.maps.size(); ++i) map(recipe_.maps[i], fmt::format("maps[{}]", i));
    for (size_t i = 0; i < recipe_.steps.size(); ++i) step(recipe_.steps[i], fmt::format("steps[{}]", i));
    expression(recipe_.workspace_bytes, Allowed::all, "workspace_bytes");
    if (error_) return *error_;
    return {};
  }

 private:
  void collect_symbols() {
    for (const RecipeSymbol& s : recipe_.symbols) {
      require(is_name(s.name) && s.name != multiprocessors_name && sizes_.insert(s.name).second, "symbols",
              fmt::format("must have different names other than {}, not '{}'", multiprocessors_name, s.name));
      require(s.multiple >= 1, "symbols", fmt::format("must have positive multiples, '{}' has {}", s.name, s.multiple));
    }
    for (const RecipeTensor& t : recipe_.tensors) {
      require(is_name(t.name) && t.name != workspace_name && tensors_.insert(t.name).second, "tensors",
              fmt::format("must have different names other than '{}', not '{}'", workspace_name, t.name));
      for (size_t axis = static_cast<size_t>(std::max(t.pointer_axes, 0)); axis + 1 < t.extents.size(); ++axis) {
        strides_.insert(fmt::format("{}.stride{}", t.name, axis));
      }
    }
    for (const std::string& name : strides_) {
      require(!sizes_.count(name), "symbols", fmt::format("must not be called '{}', which is a stride", name));
    }
  }

  void tensor(const RecipeTensor& t, const std::string& where) {
    require(t.extents.size() <= most_axes, where, fmt::format("must have at most {} extents", most_axes));
    for (const IntExpr& e : t.extents) expression(e, Allowed::sizes, where);
    require(is_power_of_two(t.alignment) && t.alignment <= 4096, where, "must have a power of two as alignment");
    require(t.group_align >= 1 && t.group_align <= most_group_align, where,
            fmt::format("must have a group_align from 1 to {}", most_group_align));
    expression(t.group_slot, Allowed::sizes, where);
    require(t.pointer_axes == 0 || (t.pointer_axes > 0 && static_cast<size_t>(t.pointer_axes) < t.extents.size()),
            where, "must have fewer pointer axes than extents");
    if (t.role == TensorRole::group_sizes) {
      require(t.extents.size() == 1 && (t.storage == Storage::i32 || t.storage == Storage::i64), where,
              "holds group sizes: it must be a vector of i32 or i64");
    }
  }

  void map(const TensorMapRecipe& m, const std::string& where) {
    require(tensors_.count(m.tensor) != 0, where, fmt::format("names no tensor: '{}'", m.tensor));
    const size_t rank = m.extents.size();
    require(rank >= 2 && rank <= 5, where, "must have 2 to 5 extents");
    require(m.strides.size() + 1 == rank && m.box.size() == rank && m.element_strides.size() == rank, where,
            "must have one box and element stride for each extent, and one stride less");
    if (error_) return;
    expression(m.byte_offset, Allowed::sizes_and_strides, where);
    for (const IntExpr& e : m.extents) expression(e, Allowed::sizes_and_strides, where);
    for (const IntExpr& e : m.strides) expression(e, Allowed::sizes_and_strides, where);
    for (size_t axis = 0; axis < rank; ++axis) {
      require(m.box[axis] >= 1 && m.box[axis] <= 256, where, "must have boxes of 1 to 256 elements");
      require(m.element_strides[axis] >= 1 && m.element_strides[axis] <= 8, where,
              "must have element strides of 1 to 8");
    }
    const uint32_t inner = m.box[0] * map_element_bytes(m.type);
    require(inner % 16 == 0, where, fmt::format("has an inner box of {} bytes; it must be a multiple of 16", inner));
    const uint32_t span = swizzle_span(m.swizzle);
    require(span == 0 || inner <= span, where,
            fmt::format("has an inner box of {} bytes, more than its swizzle's {}", inner, span));
  }

  void step(const RecipeStep& s, const std::string& where) {
    if (s.kind == RecipeStep::Kind::memset) {
      expression(s.workspace_offset, Allowed::all, where);
      expression(s.bytes, Allowed::all, where);
      return;
    }
    require(is_name(s.entry), where, "must name its entry");
    require(s.block >= 1 && s.block <= most_threads, where, fmt::format("must have 1 to {} threads", most_threads));
    require(s.shared_bytes <= most_shared_bytes, where,
            fmt::format("must use at most {} bytes of shared memory", most_shared_bytes));
    require(s.parameter_bytes >= 1 && s.parameter_bytes <= max_parameter_bytes, where,
            fmt::format("must have 1 to {} parameter bytes", max_parameter_bytes));
    expression(s.grid, Allowed::all, where);
    counted(s.fields.size(), where + ".fields");
    uint64_t free_from = 0;
    std::set<std::string> names;
    for (const ParameterField& f : s.fields) {
      if (error_) return;
      const std::string at = fmt::format("{}.fields '{}'", where, f.name);
      require(is_name(f.name) && names.insert(f.name).second, at, "must have a name of its own");
      require(f.offset >= free_from, at, "overlaps the field before it, or is out of order");
      free_from = uint64_t{f.offset} + f.size;
      require(free_from <= s.parameter_bytes, at, "reaches past the parameter bytes");
      field(f, at);
    }
  }

  void field(const ParameterField& f, const std::string& where) {
    // Of every kind: who reads a recipe may look at what the kind has no use for.
    expression(f.value, Allowed::all, where);
    require(f.kind == FieldKind::address || f.tensor.empty(), where, "must name no tensor");
    switch (f.kind) {
      case FieldKind::tensor_map:
        require(f.index >= 0 && static_cast<size_t>(f.index) < recipe_.maps.size(), where, "names no map");
        return placed(f, tensor_map_bytes, tensor_map_alignment, where);
      case FieldKind::address:
        require(f.tensor.empty() || f.tensor == workspace_name || tensors_.count(f.tensor) != 0, where,
                fmt::format("names no tensor: '{}'", f.tensor));
        return placed(f, 8, 8, where);
      case FieldKind::integer32: return placed(f, 4, 4, where);
      case FieldKind::integer64: return placed(f, 8, 8, where);
      case FieldKind::param:
        require(f.index >= 0 && static_cast<size_t>(f.index) < recipe_.params.size(), where, "names no param");
        return placed(f, 4, 4, where);
    }
  }

  void placed(const ParameterField& f, size_t size, size_t alignment, const std::string& where) {
    require(f.size == size && f.offset % alignment == 0, where,
            fmt::format("must have {} bytes at a multiple of {}, not {} at {}", size, alignment, f.size, f.offset));
  }

  void expression(const IntExpr& e, Allowed allowed, const std::string& where) {
    std::set<std::string> used;
    e.collect_symbols(used);
    for (const std::string& name : used) {
      const bool known = sizes_.count(name) || (allowed != Allowed::sizes && strides_.count(name)) ||
                         (allowed == Allowed::all && name == multiprocessors_name);
      require(known, where, fmt::format("uses '{}', which is unknown there", name));
    }
  }

  void counted(size_t count, const std::string& where) {
    require(count <= most_entries, where, fmt::format("must have at most {} entries", most_entries));
  }

  void require(bool holds, const std::string& where, std::string_view what) {
    if (!holds && !error_) error_ = user_error(fmt::format("launch recipe: {} {}", where, what));
  }

  const LaunchRecipe& recipe_;
  std::set<std::string> sizes_, tensors_, strides_;
  std::optional<Error> error_;
};

}  // namespace

Status LaunchRecipe::validate() const { return Checker(*this).run(); }

}  // namespace epifuse
