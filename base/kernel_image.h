// KernelImage: what a compile yields and a cache stores: the cubin, how to launch it, and what the toolchain said about
// it. It converts to and from bytes by itself, so that the cache needs to know nothing of kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/launch_recipe.h"
#include "base/result.h"
#include "base/shared_bytes.h"

namespace epifuse {

struct KernelImage {
  SharedBytes cubin;
  LaunchRecipe recipe;
  int registers = 0;                  // per thread at entry, the largest over the entries
  int spill_bytes = 0;                // stores and loads together, the sum over the entries
  bool wgmma_serialized = false;      // the toolchain had to wait after each wgmma
  std::vector<std::string> warnings;  // for the user, in our words

  std::string to_bytes() const;
  // A recipe that the caller knows, with its JSON: an image must hold that very text, and nothing is parsed.
  struct KnownRecipe {
    const LaunchRecipe& recipe;
    std::string_view json;
  };
  // The parts of to_bytes(), in somebody else's bytes.
  struct Sections {
    std::string_view recipe, metadata, cubin;
  };
  static Result<Sections> split(std::string_view bytes);
  // Whether to_bytes of another version wrote it, which this one cannot read.
  static bool is_of_other_version(std::string_view bytes);
  // What to_bytes wrote; an error says what is wrong, be it that the cubin has not the recipe's functions or is for
  // another GPU.
  static Result<KernelImage> from_bytes(std::string_view bytes, std::optional<KnownRecipe> known = std::nullopt);

  // The same in parts, for who stores equal parts of several images once. The cubin is shared, not copied.
  struct Parts {
    std::string recipe;    // canonical JSON
    std::string metadata;  // JSON; equal facts give equal bytes
    SharedBytes cubin;
  };
  Parts to_parts() const;
  static Result<KernelImage> from_parts(std::string_view recipe, std::string_view metadata, SharedBytes cubin,
                                        std::optional<KnownRecipe> known = std::nullopt);
};

}  // namespace epifuse
