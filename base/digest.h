// Digests find things and detect damage. They never decide equality (the stored request is compared) nor trust (the
// directory's owner and mode decide). XXH3, 128 bits; this is the one place that knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace epifuse {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Digest&) const = default;
  std::string hex() const;  // 32 lower-case digits
};

Digest digest(std::string_view bytes);

// Whether a text is what hex() writes of some digest.
inline constexpr size_t digest_digits = 32;
bool is_digest_text(std::string_view text);

}  // namespace epifuse
