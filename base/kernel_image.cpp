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
  const Json metadata = Json::parse(text, nullptr, /*allow_exceptions=*/false);
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
  if (known && known->json == recipe_text) {
    image.recipe = known->recipe;
  } else {
    auto parsed = LaunchRecipe::from_json(recipe_text);
    if (!parsed) return damaged(parsed.error().message);
    image.recipe = std::move(*parsed);
  }
  image.registers = registers.get<int>();
  image.spill_bytes = spill_bytes.get<int>();
  image.wgmma_serialized = serialized.get<bool>();
  image.cubin = std::move(cubin);
  return image;
}

}  // namespace epifuse
