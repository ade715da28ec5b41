#include "base/npy.h"

#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <optional>

#include "base/numbers.h"

namespace epifuse {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t most_axes = 32;  // NumPy's own limit

// Bytes of an element of a dtype that a tensor can be made from, or 0.
int64_t element_bytes(std::string_view dtype) {
  for (std::string_view known : {"|u1", "|i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4", "<u8", "<i8", "<f8"})
    if (dtype == known) return known[2] - '0';
  return 0;
}

// The product of the shape and the element, if 63 bits hold it.
std::optional<int64_t> total_bytes(const std::vector<int64_t>& shape, int64_t element) {
  int64_t total = element;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(total, extent, &total)) return std::nullopt;
  return total;
}

// The header is a Python dict with three known keys: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  struct Header {
    std::string descr;
    bool fortran = false;
    std::vector<int64_t> shape;
  };

  std::optional<Header> parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const std::optional<std::string> key = quoted();
      if (!key || !take(':')) return std::nullopt;
      if (*key == "descr" && !has_descr) {
        const std::optional<std::string> descr = quoted();
        if (!descr) return std::nullopt;
        header.descr = *descr;
        has_descr = true;
      } else if (*key == "fortran_order" && !has_order) {
        header.fortran = word("True");
        if (!header.fortran && !word("False")) return std::nullopt;
        has_order = true;
      } else if (*key == "shape" && !has_shape) {
        if (!tuple(header.shape)) return std::nullopt;
        has_shape = true;
      } else {
        return std::nullopt;
      }
      if (!take(',') && peek() != '}') return std::nullopt;
    }
    skip_spaces();
    if (!text_.empty() || !has_descr || !has_order || !has_shape) return std::nullopt;
    return header;
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  char peek() {
    skip_spaces();
    return text_.empty() ? '\0' : text_[0];
  }
  bool take(char c) {
    if (peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view expected) {
    skip_spaces();
    if (text_.substr(0, expected.size()) != expected) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  std::optional<std::string> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string result(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return result;
  }
  bool tuple(std::vector<int64_t>& into) {
    if (!take('(')) return false;
    while (!take(')')) {
      int64_t value = 0;
      int digits = 0;
      for (; peek() >= '0' && peek() <= '9'; ++digits) {
        if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
            __builtin_add_overflow(value, int64_t{text_[0] - '0'}, &value))
          return false;
        text_.remove_prefix(1);
      }
      if (digits == 0 || into.size() == most_axes) return false;
      into.push_back(value);
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
};

double read_float(std::string_view dtype, const char* data) {
  if (dtype == "<f8") {
    double value;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  float value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// The dtype in which a storage lies in a file.
std::string_view dtype_of(Storage storage) {
  switch (storage) {
    case Storage::f32: return "<f4";
    case Storage::bf16: return "<u2";
    case Storage::f16: return "<f2";
    case Storage::i32: return "<i4";
    case Storage::i64: return "<i8";
    default: return "|u1";
  }
}

// Codes of a floating storage, packed.
std::string round_all(const NpyArray& array, Storage storage, int64_t count) {
  const FloatFormat& format = float_format(storage);
  const int bits = storage_bits(storage);
  const int64_t step = element_bytes(array.dtype);
  std::string result(static_cast<size_t>(storage_bytes(storage, count)), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t code = encode(format, read_float(array.dtype, array.data.data() + i * step));
    if (bits == 4)
      result[i / 2] = static_cast<char>(result[i / 2] | (code << (i % 2 * 4)));
    else
      std::memcpy(result.data() + i * bits / 8, &code, static_cast<size_t>(bits / 8));
  }
  return result;
}

Result<std::string> change_integers(const NpyArray& array, Storage storage, int64_t count, std::string_view name) {
  std::string result(static_cast<size_t>(storage_bytes(storage, count)), '\0');
  for (int64_t i = 0; i < count; ++i) {
    if (storage == Storage::i64) {
      int32_t narrow;
      std::memcpy(&narrow, array.data.data() + i * 4, sizeof narrow);
      const int64_t wide = narrow;
      std::memcpy(result.data() + i * 8, &wide, sizeof wide);
      continue;
    }
    int64_t wide;
    std::memcpy(&wide, array.data.data() + i * 8, sizeof wide);
    const int32_t narrow = static_cast<int32_t>(wide);
    if (narrow != wide) return user_error(fmt::format("'{}': {} does not fit in int32", name, wide));
    std::memcpy(result.data() + i * 4, &narrow, sizeof narrow);
  }
  return result;
}

}  // namespace

Result<NpyArray> read_npy(std::string_view bytes, std::string_view name) {
  if (bytes.size() < 10 || bytes.substr(0, magic.size()) != magic)
    return user_error(fmt::format("'{}' is no .npy file", name));
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) return user_error(fmt::format("'{}' is a .npy file of version {}", name, version));
  const size_t prefix = version == 1 ? 10 : 12;
  if (bytes.size() < prefix) return user_error(fmt::format("'{}' ends within its header", name));
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (bytes.size() - prefix < length) return user_error(fmt::format("'{}' ends within its header", name));
  const std::optional<HeaderParser::Header> header = HeaderParser(bytes.substr(prefix, length)).parse();
  if (!header) return user_error(fmt::format("'{}' has a header that says no plain array", name));
  const int64_t element = element_bytes(header->descr);
  if (element == 0)
    return user_error(
        fmt::format("'{}' has the dtype '{}'; little-endian floats and integers are read", name, header->descr));
  if (header->fortran && header->shape.size() > 1)
    return user_error(fmt::format("'{}' is in Fortran order; save numpy.ascontiguousarray of it", name));
  const std::optional<int64_t> total = total_bytes(header->shape, element);
  const size_t present = bytes.size() - prefix - length;
  if (!total || static_cast<uint64_t>(*total) != present)
    return user_error(fmt::format("'{}' says shape ({}) of '{}' and holds {} bytes of data", name,
                                  fmt::join(header->shape, ", "), header->descr, present));
  return NpyArray{header->descr, header->shape, std::string(bytes.substr(prefix + length))};
}

std::string write_npy(const NpyArray& array) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", array.dtype,
                                   fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  // The data starts at a multiple of 64, as NumPy has it.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string result(magic);
  result += {'\x01', '\0', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  return result + header + array.data;
}

std::vector<int64_t> npy_extents(const NpyArray& array, Storage storage) {
  std::vector<int64_t> extents = array.shape;
  if (storage == Storage::e2m1 && array.dtype == "|u1" && !extents.empty()) extents.back() *= 2;
  return extents;
}

Result<std::string> npy_to_storage(const NpyArray& array, Storage storage, const std::vector<int64_t>& extents,
                                   std::string_view name) {
  if (npy_extents(array, storage) != extents)
    return user_error(fmt::format("'{}' has the shape ({}), ({}) is expected", name, fmt::join(array.shape, ", "),
                                  fmt::join(extents, ", ")));
  if (array.dtype == dtype_of(storage)) return array.data;
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  if (is_float(storage) && (array.dtype == "<f4" || array.dtype == "<f8")) return round_all(array, storage, count);
  const bool integers = storage == Storage::i32 || storage == Storage::i64;
  if (integers && (array.dtype == "<i4" || array.dtype == "<i8")) return change_integers(array, storage, count, name);
  return user_error(fmt::format("'{}' has the dtype '{}'; for {} it may be '{}'{}", name, array.dtype,
                                storage_name(storage), dtype_of(storage),
                                is_float(storage) ? ", '<f4' or '<f8'"
                                : integers        ? ", '<i4' or '<i8'"
                                                  : ""));
}

NpyArray npy_from_storage(Storage storage, const std::vector<int64_t>& extents, std::string_view bytes) {
  NpyArray array{std::string(dtype_of(storage)), extents, std::string(bytes)};
  if (storage != Storage::e2m1) return array;
  // Rows of an odd length share bytes: those have no shape but their number.
  if (!extents.empty() && extents.back() % 2 == 0)
    array.shape.back() /= 2;
  else
    array.shape = {static_cast<int64_t>(bytes.size())};
  return array;
}

}  // namespace epifuse
