// Resolving arguments, in the order in which a mistake is told best: names, element types and ranks, then the sizes
// that everything else is compared with, then extents, multiples and strides.
#include "runtime/arguments.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "base/diagnostics.h"

namespace epifuse::runtime {
namespace {

// Bounds under which products of an extent and a stride in bytes stay far below 2^63.
constexpr int64_t most_elements = int64_t{1} << 56;
constexpr int64_t pointer_bytes = 8;

std::string shape_text(const std::vector<int64_t>& extents) { return fmt::format("[{}]", fmt::join(extents, ", ")); }

// "[M, K]"; "[E][N, K]" where E pointers lead to the buffers.
std::string shape_text(const RecipeTensor& tensor) {
  std::vector<std::string> texts;
  for (const IntExpr& e : tensor.extents) texts.push_back(e.formula());
  const auto inner = texts.begin() + tensor.pointer_axes;
  const std::string pointers =
      tensor.pointer_axes == 0 ? "" : fmt::format("[{}]", fmt::join(texts.begin(), inner, ", "));
  return fmt::format("{}[{}]", pointers, fmt::join(inner, texts.end(), ", "));
}

class Resolver {
 public:
  Resolver(const CompiledRecipe& compiled, const Arguments& arguments)
      : compiled_(compiled), recipe_(compiled.recipe), arguments_(arguments) {
    out_.slots.resize(compiled.slot_names.size());
    out_.tensors.resize(recipe_.tensors.size());
  }

  Result<ResolvedArguments> run(int sm_count) {
    out_.slots[static_cast<size_t>(compiled_.sm_count_slot)] = sm_count;
    if (const Status s = match_tensors(); !s) return s.error();
    if (const Status s = read_dims(); !s) return s.error();
    if (const Status s = solve_launch_symbols(); !s) return s.error();
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      if (const Status s = check_extents(i); !s) return s.error();
    }
    // After the extents: that a wrong size breaks a multiple says less than that it is wrong.
    if (const Status s = check_multiples(); !s) return s.error();
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      if (const Status s = lay_out(i); !s) return s.error();
    }
    return std::move(out_);
  }

 private:
  Status match_tensors() {
    for (const TensorArgument& argument : arguments_.tensors) {
      const int index = compiled_.tensor_index(argument.name);
      if (index < 0) return unknown_tensor(argument.name);
      ResolvedArguments::Tensor& slot = out_.tensors[static_cast<size_t>(index)];
      if (slot.argument) return user_error(fmt::format("tensor '{}' is given twice", argument.name));
      slot.argument = &argument;
    }
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const RecipeTensor& wanted = recipe_.tensors[i];
      const TensorArgument* given = out_.tensors[i].argument;
      if (!given) {
        return user_error(fmt::format("tensor '{}' ({}{}) of kernel '{}' is not given", wanted.name,
                                      storage_name(wanted.storage), shape_text(wanted), recipe_.kernel));
      }
      if (given->storage && *given->storage != wanted.storage) {
        return user_error(fmt::format("tensor '{}' is {}, wanted {}", wanted.name, storage_name(*given->storage),
                                      storage_name(wanted.storage)));
      }
      if (given->extents.size() != wanted.extents.size()) {
        return user_error(fmt::format("tensor '{}' has shape {}, wanted {}", wanted.name, shape_text(given->extents),
                                      shape_text(wanted)));
      }
      if (!given->strides.empty() && given->strides.size() != given->extents.size()) {
        return user_error(fmt::format("tensor '{}' has {} extents but {} strides", wanted.name, given->extents.size(),
                                      given->strides.size()));
      }
      for (const int64_t extent : given->extents) {
        if (extent < 0) return user_error(fmt::format("tensor '{}' has a negative extent {}", wanted.name, extent));
      }
    }
    return {};
  }

  Error unknown_tensor(const std::string& name) const {
    std::vector<std::string> names;
    for (const RecipeTensor& t : recipe_.tensors) names.push_back(t.name);
    const std::string near = nearest(name, names);
    return user_error(fmt::format("kernel '{}' has no tensor '{}'{}; it has {}", recipe_.kernel, name,
                                  near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                                  fmt::join(names, ", ")));
  }

  Status read_dims() {
    for (const NamedInteger& dim : arguments_.dims) {
      for (size_t i = 0; i < recipe_.symbols.size(); ++i) {
        if (recipe_.symbols[i].name == dim.name && recipe_.symbols[i].kind == SymbolKind::fixed) {
          out_.slots[i] = dim.value;
        }
      }
    }
    for (size_t i = 0; i < recipe_.symbols.size(); ++i) {
      if (recipe_.symbols[i].kind == SymbolKind::fixed && !out_.slots[i]) {
        return user_error(
            fmt::format("dimension '{}' of kernel '{}' has no value", recipe_.symbols[i].name, recipe_.kernel));
      }
    }
    return {};
  }

  // Takes each symbol from the first extent that is the symbol alone; what is left, from extents that can be inverted
  // ("2*S" gives S), as often as that yields something new.
  Status solve_launch_symbols() {
    for (const bool invert : {false, true}) {
      bool progress = true;
      while (progress) {
        progress = false;
        for (size_t i = 0; i < out_.tensors.size(); ++i) {
          const auto& extents = recipe_.tensors[i].extents;
          for (size_t axis = 0; axis < extents.size(); ++axis) {
            if (!invert && extents[axis].op() != IntExpr::Op::symbol) continue;
            progress |= solve(extents[axis], out_.tensors[i].argument->extents[axis], i);
          }
        }
      }
    }
    for (size_t i = 0; i < recipe_.symbols.size(); ++i) {
      if (!out_.slots[i]) {
        return user_error(fmt::format("the size '{}' of kernel '{}' cannot be read off any tensor that is bound",
                                      recipe_.symbols[i].name, recipe_.kernel));
      }
    }
    return {};
  }

  // Finds the one unknown symbol of `e` from e == value, if that is possible. True when a symbol was found.
  bool solve(const IntExpr& e, int64_t value, size_t tensor) {
    if (e.op() == IntExpr::Op::constant) return false;
    if (e.op() == IntExpr::Op::symbol) {
      const auto slot = compiled_.slot(e.name());
      if (!slot || out_.slots[static_cast<size_t>(*slot)]) return false;
      out_.slots[static_cast<size_t>(*slot)] = value;
      sources_.resize(out_.slots.size(), -1);
      sources_[static_cast<size_t>(*slot)] = static_cast<int>(tensor);
      return true;
    }
    const auto known = [&](const IntExpr& part) -> std::optional<int64_t> {
      const auto v = part.evaluate([&](std::string_view name) -> std::optional<int64_t> {
        const auto slot = compiled_.slot(name);
        return slot ? out_.slots[static_cast<size_t>(*slot)] : std::nullopt;
      });
      if (!v) return std::nullopt;
      return *v;
    };
    const IntExpr a = e.left(), b = e.right();
    const auto left = known(a), right = known(b);
    if (left.has_value() == right.has_value()) return false;
    const IntExpr& unknown = left ? b : a;
    const int64_t other = left ? *left : *right;
    int64_t rest = 0;
    switch (e.op()) {
      case IntExpr::Op::add: return !__builtin_sub_overflow(value, other, &rest) && solve(unknown, rest, tensor);
      case IntExpr::Op::sub:
        if (left) return !__builtin_sub_overflow(other, value, &rest) && solve(unknown, rest, tensor);
        return !__builtin_add_overflow(value, other, &rest) && solve(unknown, rest, tensor);
      case IntExpr::Op::mul: return other > 0 && value % other == 0 && solve(unknown, value / other, tensor);
      case IntExpr::Op::exact_div:
        return right && !__builtin_mul_overflow(value, other, &rest) && solve(unknown, rest, tensor);
      default: return false;  // ceil_div, round_up, min, max forget something
    }
  }

  Status check_extents(size_t i) {
    const RecipeTensor& wanted = recipe_.tensors[i];
    ResolvedArguments::Tensor& tensor = out_.tensors[i];
    const auto& given = tensor.argument->extents;
    for (size_t axis = 0; axis < given.size(); ++axis) {
      const auto value = compiled_.tensors[i].extents[axis].evaluate(out_.slots);
      if (!value) return user_error(fmt::format("tensor '{}', axis {}: {}", wanted.name, axis, value.error().message));
      if (*value != given[axis]) {
        return user_error(fmt::format("tensor '{}' has shape {}, wanted {}: axis {} is {}, wanted {}{}", wanted.name,
                                      shape_text(given), shape_text(wanted), axis, given[axis], *value,
                                      origin(wanted.extents[axis])));
      }
    }
    if (!given.empty()) {
      const std::string odd = odd_row_fault(wanted.name, wanted.storage, wanted.extents.back().formula(), given.back());
      if (!odd.empty()) return user_error(odd);
    }
    tensor.elements = 1;
    for (const int64_t extent : given) {
      if (__builtin_mul_overflow(tensor.elements, extent, &tensor.elements) || tensor.elements > most_elements) {
        return user_error(fmt::format("tensor '{}' of shape {} has too many elements", wanted.name, shape_text(given)));
      }
    }
    return {};
  }

  // " (2 * M, where M = 128 from tensor 'x')"
  std::string origin(const IntExpr& extent) const {
    std::set<std::string> names;
    extent.collect_symbols(names);
    if (names.empty()) return "";
    std::vector<std::string> parts;
    for (const std::string& name : names) {
      const auto slot = static_cast<size_t>(*compiled_.slot(name));
      std::string part = fmt::format("{} = {}", name, out_.slots[slot].value_or(0));
      if (slot < sources_.size() && sources_[slot] >= 0) {
        part += fmt::format(" from tensor '{}'", recipe_.tensors[static_cast<size_t>(sources_[slot])].name);
      }
      parts.push_back(std::move(part));
    }
    return fmt::format(" ({})", fmt::join(parts, ", "));
  }

  Status check_multiples() const {
    for (size_t i = 0; i < recipe_.symbols.size(); ++i) {
      const RecipeSymbol& symbol = recipe_.symbols[i];
      if (*out_.slots[i] < 0) {
        return user_error(fmt::format("dimension '{}' is {}; it must not be negative", symbol.name, *out_.slots[i]));
      }
      if (*out_.slots[i] % symbol.multiple != 0) {
        return user_error(fmt::format("dimension '{}' is {}; kernel '{}' needs a multiple of {}", symbol.name,
                                      *out_.slots[i], recipe_.kernel, symbol.multiple));
      }
    }
    return {};
  }

  // Strides: fills the slots, and finds how many bytes the tensor spans. Axes that select a buffer have none.
  Status lay_out(size_t i) {
    const RecipeTensor& wanted = recipe_.tensors[i];
    ResolvedArguments::Tensor& tensor = out_.tensors[i];
    const auto& extents = tensor.argument->extents;
    const size_t rank = extents.size();
    const auto first = static_cast<size_t>(wanted.pointer_axes);
    std::vector<int64_t> strides(rank, 1);
    for (size_t axis = rank; axis-- > first + 1;) {
      strides[axis - 1] = strides[axis] * std::max<int64_t>(extents[axis], 1);
      if (strides[axis - 1] > most_elements) {
        return user_error(fmt::format("tensor '{}' of shape {} is too large", wanted.name, shape_text(extents)));
      }
    }
    // Along an axis of one element nothing is ever stepped; frameworks leave anything as its stride.
    const auto& given = tensor.argument->strides;
    for (size_t axis = first; axis < given.size() && tensor.elements > 0; ++axis) {
      if (extents[axis] == 1 || given[axis] == strides[axis]) continue;
      if (!wanted.strided || axis + 1 == rank) {
        return user_error(
            fmt::format("tensor '{}' of shape {} has strides {}: the stride of axis {} is {}, wanted {}{}", wanted.name,
                        shape_text(extents), shape_text(given), axis, given[axis], strides[axis],
                        wanted.strided ? "" : " (it must be contiguous)"));
      }
      if (given[axis] < 0 || given[axis] > most_elements) {
        return user_error(
            fmt::format("tensor '{}': the stride {} of axis {} is out of range", wanted.name, given[axis], axis));
      }
      strides[axis] = given[axis];
    }
    const int bits = storage_bits(wanted.storage);
    for (size_t axis = first; axis + 1 < rank; ++axis) {
      const int64_t stride_bits = strides[axis] * bits;
      if (wanted.strided && extents[axis] > 1 && stride_bits % (int64_t{wanted.alignment} * 8) != 0) {
        return user_error(
            fmt::format("tensor '{}': the stride of axis {} is {} elements ({} bytes), wanted a multiple of {} bytes{}",
                        wanted.name, axis, strides[axis], stride_bits / 8, wanted.alignment,
                        wanted.pitch_note.empty() ? "" : fmt::format(" ({})", wanted.pitch_note)));
      }
      out_.slots[static_cast<size_t>(compiled_.tensors[i].first_stride_slot) + axis] = strides[axis];
    }
    if (wanted.role == TensorRole::output && overlaps_itself(extents, strides, first)) {
      return user_error(fmt::format("tensor '{}' is an output, and its strides {} put several elements in one place",
                                    wanted.name, shape_text(strides)));
    }
    return measure(wanted, extents, strides, tensor);
  }

  static bool overlaps_itself(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides, size_t first) {
    std::vector<size_t> axes(extents.size() - first);
    std::iota(axes.begin(), axes.end(), first);
    std::sort(axes.begin(), axes.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
    __int128 reach = 1;  // elements from the first to behind the last one, over the axes seen so far
    for (const size_t axis : axes) {
      if (extents[axis] <= 1) continue;
      if (strides[axis] < reach) return true;
      reach += static_cast<__int128>(strides[axis]) * (extents[axis] - 1);
    }
    return false;
  }

  static Status measure(const RecipeTensor& wanted, const std::vector<int64_t>& extents,
                        const std::vector<int64_t>& strides, ResolvedArguments::Tensor& tensor) {
    const auto first = static_cast<size_t>(wanted.pointer_axes);
    if (tensor.elements > 0) {
      __int128 last = 0;
      for (size_t axis = first; axis < extents.size(); ++axis)
        last += static_cast<__int128>(strides[axis]) * (extents[axis] - 1);
      if (last >= most_elements) return user_error(fmt::format("tensor '{}' spans too much memory", wanted.name));
      tensor.bytes = storage_bytes(wanted.storage, static_cast<int64_t>(last) + 1);
    }
    if (first == 0) return {};
    // The array is read also where its buffers are empty.
    tensor.bytes = pointer_bytes;
    for (size_t axis = 0; axis < first; ++axis) {
      if (__builtin_mul_overflow(tensor.bytes, extents[axis], &tensor.bytes) || tensor.bytes > most_elements) {
        return user_error(
            fmt::format("tensor '{}' of shape {} has too many buffers", wanted.name, shape_text(extents)));
      }
    }
    return {};
  }

  const CompiledRecipe& compiled_;
  const LaunchRecipe& recipe_;
  const Arguments& arguments_;
  ResolvedArguments out_;
  std::vector<int> sources_;  // slot -> tensor that a launch symbol was read off; -1: none
};

}  // namespace

Result<ResolvedArguments> resolve_arguments(const CompiledRecipe& recipe, const Arguments& arguments, int sm_count) {
  return Resolver(recipe, arguments).run(sm_count);
}

}  // namespace epifuse::runtime
