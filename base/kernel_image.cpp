// KernelImage as bytes, little-endian, each number at a multiple of its size:
//   8 bytes   "EPIIMAGE"
//   u32       kernel_image_version
//   u32       m, bytes of the metadata
//   u64       r, bytes of the recipe
//   u64       c, bytes of the cubin
//   r bytes   the launch recipe's canonical JSON
//   m bytes   metadata as JSON, padded with spaces so that the cubin starts at a multiple of 16
//   c bytes   cubin
// There is no checksum: who stores the bytes has one over more than these.
#include "base/kernel_image.h"

#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/cubin.h"
#include "base/json.h"
#include "base/version.h"

namespace epifuse {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view magic = "EPIIMAGE";
constexpr size_t header_bytes = 32;

template <class I>
void append(std::string& out, I value) {
  for (size_t i = 0; i < sizeof(I); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <class I>
I number_at(std::string_view bytes, size_t offset) {
  I value = 0;
  for (size_t i = 0; i < sizeof(I); ++i)
    value |= static_cast<I>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  return value;
}

Error damaged(std::string_view what) { return user_error(fmt::format("kernel image: {}", what)); }

bool is_count(const Json& value) {
  return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int>::max();
}

// Whether a cubin is one of this recipe, as far as its ELF tells: another kernel's bytes, or a part of the right ones,
// would be launched otherwise.
Status check_cubin(std::string_view cubin, const LaunchRecipe& recipe) {
  const auto functions = cubin_functions(cubin);
  if (!functions) return user_error("what it has for a cubin is none");
  const std::string made_for = fmt::format("sm_{}", *cubin_capability(cubin));
  // "sm_90a" is of 90, and "sm_900" is not.
  if (!recipe.target.starts_with(made_for) ||
      recipe.target.find_first_of("0123456789", made_for.size()) != std::string::npos)
    return user_error(fmt::format("its cubin is for {}", made_for));
  for (const RecipeStep& step : recipe.steps)
    if (step.kind == RecipeStep::Kind::launch && !functions->contains(step.entry))
      return user_error(fmt::format("its cubin has no function '{}'", step.entry));
  return {};
}

}  // namespace

KernelImage::Parts KernelImage::to_parts() const {
  const Json metadata = {{"registers", registers},
                         {"spill_bytes", spill_bytes},
                         {"wgmma_serialized", wgmma_serialized},
                         {"warnings", warnings}};
  return {recipe.to_json(), metadata.dump(-1, ' ', true, Json::error_handler_t::replace), cubin};
}

std::string KernelImage::to_bytes() const {
  Parts parts = to_parts();
  std::string& text = parts.metadata;
  while ((header_bytes + parts.recipe.size() + text.size()) % 16 != 0) text.push_back(' ');

  std::string out(magic);
  append(out, static_cast<uint32_t>(kernel_image_version));
  append(out, static_cast<uint32_t>(text.size()));
  append(out, static_cast<uint64_t>(parts.recipe.size()));
  append(out, static_cast<uint64_t>(cubin.size()));
  return out.append(parts.recipe).append(text).append(cubin.view());
}

bool KernelImage::is_of_other_version(std::string_view bytes) {
  return bytes.size() >= header_bytes && bytes.starts_with(magic) &&
         number_at<uint32_t>(bytes, 8) != static_cast<uint32_t>(kernel_image_version);
}

Result<KernelImage::Sections> KernelImage::split(std::string_view bytes) {
  if (bytes.size() < header_bytes || bytes.substr(0, magic.size()) != magic) return damaged("not a kernel image");
  const auto version = number_at<uint32_t>(bytes, 8);
  if (version != static_cast<uint32_t>(kernel_image_version)) {
    return damaged(fmt::format("version {}, this build reads {}", version, kernel_image_version));
  }
  const uint64_t text_bytes = number_at<uint32_t>(bytes, 12);
  const auto recipe_bytes = number_at<uint64_t>(bytes, 16), cubin_bytes = number_at<uint64_t>(bytes, 24);
  const uint64_t rest = bytes.size() - header_bytes;
  if (text_bytes > rest || recipe_bytes > rest - text_bytes || cubin_bytes != rest - text_bytes - recipe_bytes) {
    return damaged("the size is wrong");
  }
  return Sections{bytes.substr(header_bytes, recipe_bytes), bytes.substr(header_bytes + recipe_bytes, text_bytes),
                  bytes.substr(bytes.size() - cubin_bytes)};
}

Result<KernelImage> KernelImage::from_bytes(std::string_view bytes, std::optional<KnownRecipe> known) {
  const Result<Sections> sections = split(bytes);
  if (!sections) return sections.error();
  return from_parts(sections->recipe, sections->metadata, std::string(sections->cubin), known);
}

Result<KernelImage> KernelImage::from_parts(std::string_view recipe_text, std::string_view text, SharedBytes cubin,
                                            std::optional<KnownRecipe> known) {
  const Result<Json> read = read_json(text);
  const Json metadata = read ? *read : Json();
  if (!metadata.is_object() || metadata.size() != 4) return damaged("the metadata cannot be read");
  const auto get = [&](const char* key) {
    const auto it = metadata.find(key);
    return it == metadata.end() ? Json() : *it;
  };
  const Json registers = get("registers"), spill_bytes = get("spill_bytes"), serialized = get("wgmma_serialized");
  const Json warnings = get("warnings");
  if (!is_count(registers) || !is_count(spill_bytes) || !serialized.is_boolean() || !warnings.is_array()) {
    return damaged("the metadata is incomplete");
  }
  KernelImage image;
  for (const Json& warning : warnings) {
    if (!warning.is_string()) return damaged("a warning is not text");
    image.warnings.push_back(warning.get<std::string>());
  }
  if (known) {
    if (known->json != recipe_text) return damaged("its launch recipe is not the one that was asked for");
    image.recipe = known->recipe;
  } else {
    auto parsed = LaunchRecipe::from_json(recipe_text);
    if (!parsed) return damaged(parsed.error().message);
    image.recipe = std::move(*parsed);
  }
  if (const Status fits = check_cubin(cubin, image.recipe); !fits) return fits.error();
  image.registers = registers.get<int>();
  image.spill_bytes = spill_bytes.get<int>();
  image.wgmma_serialized = serialized.get<bool>();
  image.cubin = std::move(cubin);
  return image;
}

}  // namespace epifuse
