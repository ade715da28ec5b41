#include "tests/support/naive_outputs.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <stdexcept>

namespace epifuse::test {
namespace {

using interpreter::HostTensor;
using ir::DimKind;
using ir::Extent;
using Long = long double;

constexpr int64_t block = 32;
// How many estimated errors a double may be away from the naive value.
constexpr Long safety = 8;

struct Element {
  enum class Kind { value, gap, untouched } kind = Kind::untouched;
  Estimate value;
};

int element_bytes(Storage storage) { return storage_bits(storage) / 8; }

class OutputComparison {
 public:
  OutputComparison(NaiveEvaluation& evaluation, const ir::Output& output, const interpreter::Buffers& stored,
                   const interpreter::Buffers& before, uint8_t poison, NaiveReport& report)
      : evaluation_(evaluation),
        graph_(evaluation.graph()),
        sizes_(evaluation.sizes()),
        output_(output),
        stored_(stored),
        before_(before),
        poison_(poison),
        report_(report) {}

  void run() {
    const ir::Tensor& tensor = output_.tensor;
    const HostTensor& codes = stored_.at(tensor.name);
    for (const Extent& extent : tensor.shape) extents_.push_back(sizes_.size(extent));
    if (codes.extents != extents_) return fail({}, "the buffer has another shape");
    if (graph_.nodes[static_cast<size_t>(output_.value)].op == ir::Op::group_ends) return compare_ends(codes);
    std::vector<int64_t> place(extents_.size(), 0);
    const bool scaled = tensor.type.scaled();
    if (scaled && tensor.type.format != ir::Format::mxfp8)
      throw std::logic_error("a type that is not evaluated naively");
    along_ = tensor.type.along_axis < 0 ? extents_.size() - 1 : static_cast<size_t>(tensor.type.along_axis);
    const int64_t elements = codes.elements();
    for (int64_t i = 0; i < elements && report_.mismatch.empty(); ++i) {
      for (int64_t axis = static_cast<int64_t>(extents_.size()) - 1, rest = i; axis >= 0; --axis) {
        place[static_cast<size_t>(axis)] = rest % extents_[static_cast<size_t>(axis)];
        rest /= extents_[static_cast<size_t>(axis)];
      }
      if (!scaled)
        compare_plain(place, i, codes);
      else if (place[along_] % block == 0)
        compare_block(place, codes);
    }
  }

 private:
  void fail(const std::vector<int64_t>& place, const std::string& what) {
    if (report_.mismatch.empty())
      report_.mismatch = fmt::format("{}[{}]: {}", output_.tensor.name, fmt::join(place, ", "), what);
  }

  // ---- what an element is

  // The place of an element by names, or what it is beside values. A row of the buffer belongs to a group, to the gap
  // behind one, or to nobody.
  std::optional<Indices> indices(const std::vector<int64_t>& place, Element::Kind& kind) const {
    Indices at = NaiveEvaluation::nowhere();
    kind = Element::Kind::value;
    for (size_t axis = 0; axis < place.size(); ++axis) {
      const Extent& name = output_.tensor.shape[axis];
      const bool aligned = name.dim >= 0 && graph_.dims[static_cast<size_t>(name.dim)].kind == DimKind::aligned;
      int64_t index = place[axis];
      if (sizes_.is_grouped(name) || aligned) {
        kind = Element::Kind::untouched;
        const std::vector<NaiveSizes::Group>& groups = sizes_.groups(name.dim);
        for (size_t e = 0; e < groups.size(); ++e) {
          if (groups[e].start == groups[e].end) continue;
          if (groups[e].end <= index && index < groups[e].gap_end) kind = Element::Kind::gap;
          if (index < groups[e].start || index >= groups[e].end) continue;
          kind = Element::Kind::value;
          if (aligned)
            index += sizes_.groups(graph_.dims[static_cast<size_t>(name.dim)].base)[e].start - groups[e].start;
          break;
        }
        if (kind != Element::Kind::value) return std::nullopt;
      }
      at[evaluation_.name(name)] = index;
    }
    return at;
  }

  Element element(const std::vector<int64_t>& place) {
    Element result;
    const std::optional<Indices> at = indices(place, result.kind);
    if (!at) return result;
    const bool empty = in_empty_group(*at);
    if (empty && output_.accumulate) {
      result.kind = Element::Kind::untouched;
    } else if (empty) {
      result.value = exactly(0);
    } else {
      result.value = output_.reduction == ir::Reduction::none ? evaluation_.value(output_.value, *at) : reduced(*at);
    }
    return result;
  }

  // Whether the value lies in a group without rows: a sum over them, by a reduction or by a product.
  bool in_empty_group(const Indices& at) const {
    std::vector<bool> needed(graph_.nodes.size());
    needed[static_cast<size_t>(output_.value)] = true;
    std::vector<ir::DimId> summed;
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (!needed[i]) continue;
      const ir::Node& node = graph_.nodes[i];
      for (const ir::NodeId arg : node.args) needed[static_cast<size_t>(arg)] = true;
      if (node.op == ir::Op::gemm && sizes_.is_grouped(graph_.base_name(node.along)))
        summed.push_back(graph_.base_name(node.along).dim);
    }
    for (const Extent& name : graph_.nodes[static_cast<size_t>(output_.value)].shape)
      if (sizes_.is_grouped(graph_.base_name(name)) && at[evaluation_.name(name)] < 0)
        summed.push_back(graph_.base_name(name).dim);
    for (const ir::DimId dim : summed) {
      const Extent count = {1, graph_.dims[static_cast<size_t>(dim)].cut_by, 1};
      const int64_t e = at[evaluation_.name(count)];
      if (e < 0) continue;
      const NaiveSizes::Group& group = sizes_.groups(dim)[static_cast<size_t>(e)];
      if (group.start == group.end) return true;
    }
    return false;
  }

  Estimate reduced(const Indices& at) {
    Indices inner = at;
    Estimate total = exactly(0);
    add_terms(0, inner, total);
    return total;
  }

  // The terms over the names of the value from number `next` on that `at` does not have.
  void add_terms(size_t next, Indices& at, Estimate& total) {
    const ir::Shape& shape = graph_.nodes[static_cast<size_t>(output_.value)].shape;
    if (next == shape.size()) {
      const Estimate term = evaluation_.value(output_.value, at);
      if (output_.reduction == ir::Reduction::sum) {
        total = total + term;
        return;
      }
      const Long magnitude = std::fabs(term.value);
      if (magnitude > total.value || std::isnan(magnitude)) total.value = magnitude;
      total.error = std::max(total.error, term.error);
      return;
    }
    const Extent name = graph_.base_name(shape[next]);
    const size_t number = evaluation_.name(name);
    if (at[number] >= 0) return add_terms(next + 1, at, total);
    const auto visit = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        at[number] = i;
        add_terms(next + 1, at, total);
      }
      at[number] = -1;
    };
    if (!sizes_.is_grouped(name)) return visit(0, sizes_.size(name));
    const Extent count = {1, graph_.dims[static_cast<size_t>(name.dim)].cut_by, 1};
    const int64_t chosen = at[evaluation_.name(count)];
    const std::vector<NaiveSizes::Group>& groups = sizes_.groups(name.dim);
    for (size_t e = 0; e < groups.size(); ++e)
      if (chosen < 0 || chosen == static_cast<int64_t>(e)) visit(groups[e].start, groups[e].end);
  }

  // ---- comparisons

  // Elements that are no values: zeros, or the bytes of before.
  bool compare_bytes(const std::vector<int64_t>& place, Element::Kind kind, const std::string& name, int64_t position) {
    if (kind == Element::Kind::value) return false;
    const HostTensor& tensor = stored_.at(name);
    const auto old = before_.find(name);
    for (int i = 0; i < element_bytes(tensor.storage); ++i) {
      const auto at = static_cast<size_t>(position * element_bytes(tensor.storage) + i);
      const uint8_t expected = kind == Element::Kind::gap ? 0 : old == before_.end() ? poison_ : old->second.bytes[at];
      if (tensor.bytes[at] != expected)
        fail(place, fmt::format("byte {:02x} of {} where {:02x} belongs", tensor.bytes[at], name, expected));
    }
    ++report_.elements;
    return true;
  }

  void compare_number(const std::vector<int64_t>& place, const Estimate& wanted, Long stored, Long low, Long high) {
    ++report_.elements;
    if (std::isinf(wanted.error) || (std::isnan(wanted.error) && !std::isnan(wanted.value))) {
      ++report_.undecided;
    } else if (std::isnan(wanted.value) ? !std::isnan(stored) : !(low <= stored && stored <= high)) {
      fail(place, fmt::format("{:.17g} is stored, {:.17g} (error {:.3g}) is what the graph means", stored, wanted.value,
                              wanted.error));
    }
  }

  void compare_plain(const std::vector<int64_t>& place, int64_t position, const HostTensor& codes) {
    Element wanted = element(place);
    if (compare_bytes(place, wanted.kind, output_.tensor.name, position)) return;
    if (output_.accumulate) {
      const HostTensor& old = before_.at(output_.tensor.name);
      wanted.value = wanted.value + exactly(decode_naively(old.storage, old.bytes, position));
    }
    const Long stored = decode_naively(codes.storage, codes.bytes, position), error = safety * wanted.value.error;
    compare_number(place, wanted.value, stored, round_naively(codes.storage, wanted.value.value - error),
                   round_naively(codes.storage, wanted.value.value + error));
  }

  void compare_block(const std::vector<int64_t>& first, const HostTensor& codes) {
    const HostTensor& scales = stored_.at(output_.tensor.name + ".scale");
    const Storage storage = codes.storage;
    int64_t scale_position = 0;
    for (size_t axis = 0; axis < first.size(); ++axis)
      scale_position = axis == along_ ? scale_position * ((extents_[axis] + block - 1) / block) + first[axis] / block
                                      : scale_position * extents_[axis] + first[axis];
    std::vector<Element> elements;
    std::vector<int64_t> positions;
    Estimate amax = exactly(0);
    std::vector<int64_t> place = first;
    for (; place[along_] < std::min(extents_[along_], first[along_] + block); ++place[along_]) {
      elements.push_back(element(place));
      int64_t position = 0;
      for (size_t axis = 0; axis < place.size(); ++axis) position = position * extents_[axis] + place[axis];
      positions.push_back(position);
      const Estimate& value = elements.back().value;
      if (elements.back().kind != Element::Kind::value) continue;
      if (std::isnan(value.value) || std::fabs(value.value) > amax.value) amax.value = std::fabs(value.value);
      amax.error = std::max(amax.error, value.error);
    }
    // A block never meets two groups; behind its group's end it is a gap, or, where rows run along it, short.
    if (compare_bytes(first, elements.front().kind, output_.tensor.name + ".scale", scale_position)) {
      for (size_t i = 0; i < elements.size(); ++i)
        compare_bytes(first, elements[i].kind, output_.tensor.name, positions[i]);
      return;
    }
    const int scale = scales.bytes[static_cast<size_t>(scale_position)];
    if (std::isinf(amax.error)) {
      ++report_.undecided;
    } else if (std::isnan(amax.value) || std::isinf(amax.value)) {
      if (scale != 255) fail(first, fmt::format("scale {} of a block with NaN", scale));
    } else {
      const Long error = safety * amax.error;
      const int low = amax.value - error <= 0 ? 0 : 127 + scale_exponent_naively(storage, amax.value - error);
      const int high = amax.value + error <= 0 ? 0 : 127 + scale_exponent_naively(storage, amax.value + error);
      if (scale < low || scale > high) fail(first, fmt::format("scale {} where {} to {} is right", scale, low, high));
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      if (compare_bytes(first, elements[i].kind, output_.tensor.name, positions[i])) continue;
      const Long code = decode_naively(storage, codes.bytes, positions[i]);
      if (scale == 255) {
        if (!std::isnan(code)) fail(first, "a number under a scale that is NaN");
        continue;
      }
      const Long unit = std::ldexp(1.0L, scale - 127), error = safety * elements[i].value.error;
      compare_number(first, elements[i].value, code * unit,
                     round_naively(storage, (elements[i].value.value - error) / unit) * unit,
                     round_naively(storage, (elements[i].value.value + error) / unit) * unit);
    }
  }

  void compare_ends(const HostTensor& codes) {
    const auto& groups = sizes_.groups(graph_.nodes[static_cast<size_t>(output_.value)].dim);
    for (size_t e = 0; e < groups.size(); ++e) {
      const auto place = static_cast<int64_t>(e);
      ++report_.elements;
      if (decode_naively(codes.storage, codes.bytes, place) != static_cast<Long>(groups[e].gap_end))
        fail({place}, "not where the group ends");
    }
  }

  NaiveEvaluation& evaluation_;
  const ir::Graph& graph_;
  const NaiveSizes& sizes_;
  const ir::Output& output_;
  const interpreter::Buffers& stored_;
  const interpreter::Buffers& before_;
  const uint8_t poison_;
  NaiveReport& report_;
  std::vector<int64_t> extents_;
  size_t along_ = 0;
};

}  // namespace

NaiveReport compare_naively(NaiveEvaluation& evaluation, const interpreter::Buffers& stored,
                            const interpreter::Buffers& before, uint8_t poison) {
  NaiveReport report;
  for (const ir::Output& output : evaluation.graph().outputs)
    if (!output.left_out) OutputComparison(evaluation, output, stored, before, poison, report).run();
  return report;
}

}  // namespace epifuse::test
