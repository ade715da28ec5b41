#include "tests/support/naive_outputs.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/naive_scaled.h"

namespace epifuse::test {
namespace {

using interpreter::HostTensor;
using ir::Extent;
using Kind = NaiveElement::Kind;
using Long = long double;

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
        poison_(8, poison),
        report_(report),
        elements_(evaluation, output) {}

  void run() {
    const ir::Tensor& tensor = output_.tensor;
    const HostTensor& codes = stored_.at(tensor.name);
    for (const Extent& extent : tensor.shape) extents_.push_back(sizes_.size(extent));
    if (codes.extents != extents_) return fail({}, "the buffer has another shape");
    if (graph_.nodes[static_cast<size_t>(output_.value)].op == ir::Op::group_ends) return compare_ends(codes);
    if (tensor.type.scaled()) {
      NaiveScaledComparison(
          evaluation_, output_, stored_, report_,
          [this](const auto& place, Kind kind, const std::string& name, int64_t position) {
            return compare_bytes(place, kind, name, position);
          },
          [this](const auto& place, const std::string& what) { fail(place, what); })
          .run();
      return;
    }
    std::vector<int64_t> place(extents_.size(), 0);
    const int64_t elements = codes.elements();
    for (int64_t i = 0; i < elements && report_.mismatch.empty(); ++i) {
      for (int64_t axis = static_cast<int64_t>(extents_.size()) - 1, rest = i; axis >= 0; --axis) {
        place[static_cast<size_t>(axis)] = rest % extents_[static_cast<size_t>(axis)];
        rest /= extents_[static_cast<size_t>(axis)];
      }
      compare_plain(place, i, codes);
    }
  }

 private:
  void fail(const std::vector<int64_t>& place, const std::string& what) {
    if (report_.mismatch.empty())
      report_.mismatch = fmt::format("{}[{}]: {}", output_.tensor.name, fmt::join(place, ", "), what);
  }

  // Elements that are no values: zeros, or the bits of before.
  bool compare_bytes(const std::vector<int64_t>& place, Kind kind, const std::string& name, int64_t position) {
    if (kind == Kind::value) return false;
    const HostTensor& tensor = stored_.at(name);
    const auto old = before_.find(name);
    const uint32_t expected = kind == Kind::gap      ? 0
                              : old == before_.end() ? code_naively(tensor.storage, poison_, position % 2)
                                                     : code_naively(tensor.storage, old->second.bytes, position);
    const uint32_t found = code_naively(tensor.storage, tensor.bytes, position);
    if (found != expected) fail(place, fmt::format("{:x} in {} where {:x} belongs", found, name, expected));
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
    NaiveElement wanted = elements_.at(place);
    if (compare_bytes(place, wanted.kind, output_.tensor.name, position)) return;
    if (output_.accumulate) {
      const HostTensor& old = before_.at(output_.tensor.name);
      wanted.value = wanted.value + exactly(decode_naively(old.storage, old.bytes, position));
    }
    const Long stored = decode_naively(codes.storage, codes.bytes, position), error = naive_safety * wanted.value.error;
    compare_number(place, wanted.value, stored, round_naively(codes.storage, wanted.value.value - error),
                   round_naively(codes.storage, wanted.value.value + error));
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
  const std::vector<uint8_t> poison_;  // of an element
  NaiveReport& report_;
  NaiveElements elements_;
  std::vector<int64_t> extents_;
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
