#include "tests/support/naive_scaled.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace epifuse::test {
namespace {

using interpreter::HostTensor;
using Kind = NaiveElement::Kind;
using Long = long double;
using ScalePlace = NaiveScaleLayout::Place;

constexpr float infinity = std::numeric_limits<float>::infinity();

// The f32 at or below a number, and the one at or above it.
float below(Long x) {
  const auto nearest = static_cast<float>(x);
  return nearest > x ? std::nextafter(nearest, -infinity) : nearest;
}
float above(Long x) {
  const auto nearest = static_cast<float>(x);
  return nearest < x ? std::nextafter(nearest, infinity) : nearest;
}

bool is_undecided(const Estimate& x) { return std::isinf(x.error) || (std::isnan(x.error) && !std::isnan(x.value)); }

// Calls visit(index) for every index below the extents.
template <class Visit>
void for_each_index(const std::vector<int64_t>& extents, Visit visit) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  std::vector<int64_t> index(extents.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t axis = extents.size(); axis-- > 0; rest /= extents[axis]) index[axis] = rest % extents[axis];
    visit(index);
  }
}

}  // namespace

NaiveScaledComparison::NaiveScaledComparison(NaiveEvaluation& evaluation, const ir::Output& output,
                                             const interpreter::Buffers& stored, NaiveReport& report,
                                             CompareRest compare_rest, Fail fail)
    : evaluation_(evaluation),
      sizes_(evaluation.sizes()),
      output_(output),
      tensor_(output.tensor),
      codes_(stored.at(output.tensor.name)),
      scales_name_(output.tensor.name + ".scale"),
      scales_(stored.at(scales_name_)),
      report_(report),
      compare_rest_(std::move(compare_rest)),
      fail_(std::move(fail)),
      elements_(evaluation, output),
      layout_(evaluation.sizes(), output.tensor) {}

void NaiveScaledComparison::run() {
  std::vector<bool> needed(evaluation_.graph().nodes.size());
  needed[static_cast<size_t>(output_.value)] = true;
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const ir::Node& node = evaluation_.graph().nodes[i];
    has_gradient_ = has_gradient_ || node.op == ir::Op::grad;
    for (const ir::NodeId arg : node.args) needed[static_cast<size_t>(arg)] = true;
  }
  if (const std::string fault = layout_.fault(scales_.extents); !fault.empty()) return fail_({}, fault);
  std::map<std::vector<int64_t>, int64_t> positions;
  for (int64_t i = 0; i < scales_.elements(); ++i) {
    const ScalePlace place = layout_.place(i, scales_.extents);
    if (place.kind == ScalePlace::Kind::block)
      positions[place.block] = i;
    else
      compare_rest_({i}, place.kind == ScalePlace::Kind::padding ? Kind::gap : Kind::untouched, scales_name_, i);
  }
  for_each_index(layout_.blocks(), [&](const std::vector<int64_t>& block) {
    const auto found = positions.find(block);
    if (report_.mismatch.empty())
      compare_block(block, found == positions.end() ? std::nullopt : std::optional<int64_t>(found->second));
  });
}

std::vector<NaiveScaledComparison::Member> NaiveScaledComparison::members(const std::vector<int64_t>& block) {
  std::vector<int64_t> first = block, extents;
  for (size_t axis = 0; axis < block.size(); ++axis) {
    first[axis] *= layout_.block_size(axis);
    extents.push_back(std::min(layout_.block_size(axis), codes_.extents[axis] - first[axis]));
  }
  std::vector<Member> result;
  for_each_index(extents, [&](const std::vector<int64_t>& index) {
    Member member;
    member.place = index;
    member.position = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      member.place[axis] += first[axis];
      member.position = member.position * codes_.extents[axis] + member.place[axis];
    }
    member.element = elements_.at(member.place);
    const Estimate& value = member.element.value;
    member.low = value.error == 0 ? value.value : value.value - naive_safety * value.error;
    member.high = value.error == 0 ? value.value : value.value + naive_safety * value.error;
    result.push_back(std::move(member));
  });
  return result;
}

// A block never meets two groups: what is no value in it is a gap, or, where rows run along it, behind the last.
void NaiveScaledComparison::compare_block(const std::vector<int64_t>& block, std::optional<int64_t> scale_position) {
  const std::vector<Member> all = members(block);
  std::vector<Member> values;
  Kind kind = Kind::untouched;
  for (const Member& member : all) {
    if (member.element.kind == Kind::value) values.push_back(member);
    if (member.element.kind != Kind::untouched && kind != Kind::value) kind = member.element.kind;
    compare_rest_(member.place, member.element.kind, tensor_.name, member.position);
  }
  if (!scale_position) {
    if (kind != Kind::untouched) fail_(all.front().place, "a block without a place for its scale");
    return;
  }
  if (kind == Kind::value) return compare_values(values, *scale_position);
  compare_rest_(all.front().place, kind, scales_name_, *scale_position);
}

void NaiveScaledComparison::compare_values(const std::vector<Member>& members, int64_t scale_position) {
  const auto count = static_cast<int64_t>(members.size());
  report_.elements += count + 1;
  const bool te = tensor_.type.nonfinite == ir::NonFinite::te;
  Long least = 0, most = 0;
  bool is_nan = false;
  for (const Member& member : members) {
    if (is_undecided(member.element.value)) {
      report_.undecided += count + 1;
      return;
    }
    const Long value = member.element.value.value;
    is_nan = is_nan || (!te && !std::isfinite(value));
    if (std::isnan(value)) continue;
    least = std::max(least,
                     member.low <= 0 && member.high >= 0 ? 0 : std::min(std::fabs(member.low), std::fabs(member.high)));
    most = std::max(most, std::max(std::fabs(member.low), std::fabs(member.high)));
  }
  const float low = is_nan ? std::nanf("") : below(least), high = is_nan ? std::nanf("") : above(most);
  // Between zero and a little there is every scale.
  if ((low == 0 && high > 0) || (std::isfinite(low) && std::isinf(high))) {
    report_.undecided += count + 1;
    return;
  }
  ++report_.blocks[is_nan || std::isinf(high) ? "not finite"
                   : high == 0                ? "zero"
                   : high < 0x1p-126f         ? "subnormal"
                                              : "finite"];
  const NaiveFormat format = format_of(members.front());
  const uint32_t stored = code_naively(scales_.storage, scales_.bytes, scale_position);
  // Scales are ordered as the numbers they stand for.
  if (stored < format.scale(low) || stored > format.scale(high)) {
    return fail_(members.front().place, fmt::format("scale {:x} of a block up to {:.9g} where {:x} to {:x} is right",
                                                    stored, high, format.scale(low), format.scale(high)));
  }
  const bool poisoned = format.is_poisoned(stored);
  const NaiveFormat::Factors factors = poisoned ? NaiveFormat::Factors{NAN, NAN} : format.factors(stored, low, high);
  for (const Member& member : members) compare_code(member, format, factors);
}

void NaiveScaledComparison::compare_code(const Member& member, const NaiveFormat& format,
                                         const NaiveFormat::Factors& factors) {
  const uint32_t stored = code_naively(codes_.storage, codes_.bytes, member.position);
  const std::optional<int> bits = random_bits(member.place);
  // An element is monotone in the value and in the factor.
  std::set<uint32_t> corners;
  for (const float x : {below(member.low), above(member.high)})
    for (const float factor : {factors.least, factors.most}) corners.insert(format.element(x, factor, bits));
  if (corners.contains(stored)) return;
  Long low = std::numeric_limits<Long>::infinity(), high = -low;
  for (const uint32_t code : corners) {
    low = std::min(low, decode_naively(codes_.storage, code));
    high = std::max(high, decode_naively(codes_.storage, code));
  }
  const Long number = decode_naively(codes_.storage, stored);
  // A zero that a derivative makes may have either sign.
  const bool either_zero = has_gradient_ && low == 0;
  if ((corners.size() > 1 || either_zero) && low <= number && number <= high) return;
  fail_(member.place, fmt::format("code {:x} where {:x} is right, of {:.17g} (error {:.3g}) times {:.9g}{}", stored,
                                  *corners.begin(), member.element.value.value, member.element.value.error,
                                  factors.least, bits ? fmt::format(", random {}", *bits) : ""));
}

// Eight bits for each element, by its logical place: rows of groups count from where the group starts.
std::optional<int> NaiveScaledComparison::random_bits(const std::vector<int64_t>& place) const {
  if (tensor_.type.seed_input.empty()) return std::nullopt;
  const size_t rank = place.size();
  std::vector<int64_t> logical = place;
  std::optional<int64_t> group;
  for (size_t axis = rank < 2 ? 0 : rank - 2; axis < rank; ++axis) {
    const ir::Extent& extent = tensor_.shape[axis];
    if (extent.dim < 0 || extent.times != 1 || extent.over != 1) continue;
    const std::vector<NaiveSizes::Group>& groups = sizes_.groups(extent.dim);
    for (size_t e = 0; e < groups.size(); ++e) {
      if (place[axis] < groups[e].start || place[axis] >= groups[e].end) continue;
      group = static_cast<int64_t>(e);
      logical[axis] = place[axis] - groups[e].start;
    }
  }
  int64_t matrix = 0;
  for (size_t axis = 0; axis + 2 < rank; ++axis) matrix = matrix * codes_.extents[axis] + place[axis];
  const int64_t column = logical[rank - 1], row = rank < 2 ? 0 : logical[rank - 2];
  const std::vector<ir::Output>& outputs = evaluation_.graph().outputs;
  const auto ordinal = static_cast<uint32_t>(&output_ - outputs.data());
  const HostTensor& given = evaluation_.input_buffer(tensor_.type.seed_input);
  const auto word = [&](int64_t i) { return code_naively(Storage::i32, given.bytes, i); };
  const std::array<uint32_t, 4> words =
      philox_naively({static_cast<uint32_t>(column / 4), static_cast<uint32_t>(row / 4),
                      static_cast<uint32_t>(group.value_or(matrix)) | ordinal << 24, word(2)},
                     {word(0), word(1) ^ word(3)});
  return static_cast<int>(words[static_cast<size_t>(row % 4)] >> (column % 4 * 8) & 0xFF);
}

NaiveFormat NaiveScaledComparison::format_of(const Member& member) {
  const ir::TensorType& type = tensor_.type;
  if (type.amax_input.empty()) return NaiveFormat(type);
  Kind kind;
  const std::optional<Indices> at = elements_.indices(member.place, kind);
  return NaiveFormat(type, static_cast<float>(evaluation_.input(type.amax_input, at.value()).value));
}

}  // namespace epifuse::test
