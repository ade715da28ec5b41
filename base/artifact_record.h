// The record that an artifact is found by, as text: its fields in order, each "NAME LENGTH:VALUE\n". Lengths make two
// lists of fields never give one text; names and values are for people, so that a record says why it does not fit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse {

class ArtifactRecord {
 public:
  explicit ArtifactRecord(size_t expected_bytes = 0) { text_.reserve(expected_bytes); }

  // `name` is a word without blanks.
  ArtifactRecord& add(std::string_view name, std::string_view value);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

struct RecordField {
  std::string_view name, value;  // of the record's text
};

// Nothing for a text that is no record.
std::optional<std::vector<RecordField>> parse_record(std::string_view text);

// One part in which two records differ.
struct RecordDifference {
  std::string part;            // "template tile/tile.cuh", "CUDA text, line 12", "arch", "flag", "recipe"
  std::string stored, wanted;  // for people, cut where they are long; empty: it is not there
};

// All parts that differ, in the order of the wanted record; of a text or a recipe its first difference alone. Empty:
// the two are equal.
std::vector<RecordDifference> record_differences(std::string_view stored, std::string_view wanted);

}  // namespace epifuse
