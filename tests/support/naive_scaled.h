// Outputs of scaled types against the naive evaluation: each block of codes with its scale, and every other byte of
// the scales' buffer.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "tests/support/naive_elements.h"
#include "tests/support/naive_formats.h"
#include "tests/support/naive_layout.h"
#include "tests/support/naive_outputs.h"

namespace epifuse::test {

class NaiveScaledComparison {
 public:
  // What an element is beside values is compared by `compare_rest`, which answers whether it was such a one.
  using CompareRest = std::function<bool(const std::vector<int64_t>& place, NaiveElement::Kind kind,
                                         const std::string& buffer, int64_t position)>;
  using Fail = std::function<void(const std::vector<int64_t>& place, const std::string& what)>;
  NaiveScaledComparison(NaiveEvaluation& evaluation, const ir::Output& output, const interpreter::Buffers& stored,
                        NaiveReport& report, CompareRest compare_rest, Fail fail);

  void run();

 private:
  struct Member {
    std::vector<int64_t> place;
    int64_t position;
    NaiveElement element;
    long double low, high;  // of a value
  };
  void compare_block(const std::vector<int64_t>& block, std::optional<int64_t> scale_position);
  std::vector<Member> members(const std::vector<int64_t>& block);
  void compare_values(const std::vector<Member>& members, int64_t scale_position);
  void compare_code(const Member& member, const NaiveFormat& format, const NaiveFormat::Factors& factors);
  std::optional<int> random_bits(const std::vector<int64_t>& place) const;
  NaiveFormat format_of(const Member& member);

  NaiveEvaluation& evaluation_;
  const NaiveSizes& sizes_;
  const ir::Output& output_;
  const ir::Tensor& tensor_;
  const interpreter::HostTensor& codes_;
  const std::string scales_name_;
  const interpreter::HostTensor& scales_;
  NaiveReport& report_;
  CompareRest compare_rest_;
  Fail fail_;
  NaiveElements elements_;
  NaiveScaleLayout layout_;
  bool has_gradient_ = false;
};

}  // namespace epifuse::test
