#include "tools/embed_bundle.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>

namespace epifuse::tools {
namespace {

// A driver reads cubins where they lie (cache/bundle_format.h).
constexpr int alignment = 256;

bool is_c_name(std::string_view name) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && is_letter(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return is_letter(c) || std::isdigit(static_cast<unsigned char>(c));
  });
}

// Of C, and of C++, where a program may be written.
bool is_keyword(std::string_view name) {
  constexpr std::string_view keywords[] = {"alignas",
                                           "alignof",
                                           "and",
                                           "and_eq",
                                           "asm",
                                           "auto",
                                           "bitand",
                                           "bitor",
                                           "bool",
                                           "break",
                                           "case",
                                           "catch",
                                           "char",
                                           "char16_t",
                                           "char32_t",
                                           "char8_t",
                                           "class",
                                           "co_await",
                                           "co_return",
                                           "co_yield",
                                           "compl",
                                           "concept",
                                           "const",
                                           "const_cast",
                                           "consteval",
                                           "constexpr",
                                           "constinit",
                                           "continue",
                                           "decltype",
                                           "default",
                                           "delete",
                                           "do",
                                           "double",
                                           "dynamic_cast",
                                           "else",
                                           "enum",
                                           "explicit",
                                           "export",
                                           "extern",
                                           "false",
                                           "float",
                                           "for",
                                           "friend",
                                           "goto",
                                           "if",
                                           "inline",
                                           "int",
                                           "long",
                                           "mutable",
                                           "namespace",
                                           "new",
                                           "noexcept",
                                           "not",
                                           "not_eq",
                                           "nullptr",
                                           "operator",
                                           "or",
                                           "or_eq",
                                           "private",
                                           "protected",
                                           "public",
                                           "register",
                                           "reinterpret_cast",
                                           "requires",
                                           "restrict",
                                           "return",
                                           "short",
                                           "signed",
                                           "sizeof",
                                           "static",
                                           "static_assert",
                                           "static_cast",
                                           "struct",
                                           "switch",
                                           "template",
                                           "this",
                                           "thread_local",
                                           "throw",
                                           "true",
                                           "try",
                                           "typedef",
                                           "typeid",
                                           "typename",
                                           "typeof",
                                           "union",
                                           "unsigned",
                                           "using",
                                           "virtual",
                                           "void",
                                           "volatile",
                                           "wchar_t",
                                           "while",
                                           "xor",
                                           "xor_eq",
                                           "main"};
  return std::find(std::begin(keywords), std::end(keywords), name) != std::end(keywords);
}

std::string header(const std::string& symbol) {
  return fmt::format(
      "/* Prebuilt kernels of Epifuse, made by `epifuse bundle embed`. In a program:\n"
      "     extern const unsigned char {0}[];\n"
      "     extern const unsigned long long {0}_size;\n"
      "     epifuse_engine_add_bundle_memory(engine, {0}, {0}_size, \"{0}\");\n"
      "   or, where there is no compiler,\n"
      "     epifuse_runtime_add_bundle_memory(runtime, {0}, {0}_size, \"{0}\"); */\n",
      symbol);
}

std::string assembly(const std::string& path, size_t size, const std::string& symbol) {
  return header(symbol) + fmt::format(R"(    .section .rodata
    .balign {0}
    .globl {1}
    .type {1}, %object
    .size {1}, {2}
{1}:
    .incbin "{3}"
    .balign 8
    .globl {1}_size
    .type {1}_size, %object
    .size {1}_size, 8
{1}_size:
    .quad {2}
    .section .note.GNU-stack, "", %progbits
)",
                                      alignment, symbol, size, path);
}

std::string c_source(std::string_view bytes, const std::string& symbol) {
  std::string text = header(symbol);
  text.reserve(text.size() + bytes.size() * 4);
  text += fmt::format("extern const unsigned char {0}[];\nextern const unsigned long long {0}_size;\n", symbol);
  text += fmt::format("const unsigned long long {}_size = {}ULL;\n", symbol, bytes.size());
  text += fmt::format("const unsigned char {}[] __attribute__((aligned({}))) = {{\n", symbol, alignment);
  constexpr size_t per_line = 24;
  for (size_t i = 0; i < bytes.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{},", static_cast<unsigned char>(bytes[i]));
    if ((i + 1) % per_line == 0) text += '\n';
  }
  return text + "};\n";
}

}  // namespace

Result<std::string> embedding_source(const std::string& path, std::string_view bytes, const std::string& symbol,
                                     const std::string& output) {
  if (!is_c_name(symbol) || is_keyword(symbol))
    return user_error(fmt::format("--symbol: '{}' is no name that C leaves to a program", symbol));
  if (output.ends_with(".c")) return c_source(bytes, symbol);
  if (!output.ends_with(".S") && !output.ends_with(".s"))
    return user_error(fmt::format("'{}' is neither NAME.S nor NAME.c", output));
  // The assembler looks from where it runs, which is not known.
  std::error_code failed;
  const std::string absolute = std::filesystem::absolute(path, failed).lexically_normal().string();
  if (failed || absolute.find_first_of("\"\\\n") != std::string::npos)
    return user_error(fmt::format("an assembler cannot spell the path of '{}'; a NAME.c holds the bytes", path));
  return assembly(absolute, bytes.size(), symbol);
}

}  // namespace epifuse::tools
