// The same tokens packed, and with each group padded to a multiple by the caller: pads hold NaN.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/interpreter/host_tensor.h"

namespace epifuse::test {

struct PaddedGroups {
  std::vector<int64_t> counts, starts;                // packed
  std::vector<int64_t> padded_counts, padded_starts;  // each group from a multiple
  int64_t padded_rows = 0;

  PaddedGroups(std::vector<int64_t> group_counts, int64_t multiple) : counts(std::move(group_counts)) {
    int64_t rows = 0;
    for (const int64_t count : counts) {
      starts.push_back(rows);
      padded_starts.push_back(padded_rows);
      padded_counts.push_back((count + multiple - 1) / multiple * multiple);
      rows += count;
      padded_rows += padded_counts.back();
    }
  }

  // A tensor over packed tokens, moved to the padded places.
  interpreter::HostTensor pad(const interpreter::HostTensor& packed) const {
    std::vector<int64_t> extents = packed.extents;
    extents[0] = padded_rows;
    interpreter::HostTensor padded = interpreter::make_tensor(packed.storage, extents, 0xFF);
    const int64_t width = extents.size() == 2 ? extents[1] : 1;
    for (size_t e = 0; e < counts.size(); ++e)
      for (int64_t i = 0; i < counts[e] * width; ++i)
        interpreter::store_code(padded, padded_starts[e] * width + i,
                                interpreter::load_code(packed, starts[e] * width + i));
    return padded;
  }

  // Codes of the tokens' rows, one group after the other, of a tensor over padded rows, or over packed ones.
  std::vector<uint32_t> rows_of(const interpreter::HostTensor& tensor, bool is_padded) const {
    std::vector<uint32_t> codes;
    const int64_t width = tensor.extents[1];
    for (size_t e = 0; e < counts.size(); ++e) {
      const int64_t first = (is_padded ? padded_starts : starts)[e] * width;
      for (int64_t i = first; i < first + counts[e] * width; ++i) codes.push_back(interpreter::load_code(tensor, i));
    }
    return codes;
  }
};

// The kernel of these cases; `clause` goes on behind the group's sizes.
inline std::string padded_spec(const std::string& clause) {
  const std::string name = clause.empty() ? "packed" : "aligned";
  return "kernel " + name + " {\n  dim E = 6, K = 40, N = 72\n  group M by E counts" + clause +
         "\n  group P = M align 128\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in p : f32[M]\n"
         "  v = gemm(x, w) * p\n  out y : bf16[M, N] = v\n  out q : mxfp8[M, N] = v\n  out t : mxfp8[N, P] = v\n}\n";
}

// How many codes of two tensors [rows, columns] differ in the columns that both have.
inline int64_t different_columns(const interpreter::HostTensor& a, const interpreter::HostTensor& b) {
  int64_t different = 0;
  for (int64_t row = 0; row < a.extents[0]; ++row)
    for (int64_t i = 0; i < std::min(a.extents[1], b.extents[1]); ++i)
      different +=
          interpreter::load_code(a, row * a.extents[1] + i) != interpreter::load_code(b, row * b.extents[1] + i);
  return different;
}

}  // namespace epifuse::test
