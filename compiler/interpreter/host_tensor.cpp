#include "compiler/interpreter/host_tensor.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/ensure.h"
#include "base/numbers.h"

namespace epifuse::interpreter {
namespace {

template <class T>
T read_as(const HostTensor& tensor, int64_t position) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + position * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write_as(HostTensor& tensor, int64_t position, T value) {
  std::memcpy(tensor.bytes.data() + position * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Values of all codes of an 8-bit or smaller storage.
const std::array<double, 256>& code_values(Storage storage) {
  auto fill = [](Storage s) {
    std::array<double, 256> values;
    for (uint32_t code = 0; code < 256; ++code)
      values[code] = s == Storage::e8m0 ? decode_e8m0(static_cast<uint8_t>(code))
                                        : decode(s, code & (2 * float_format(s).sign - 1));
    return values;
  };
  static const std::array<double, 256> e4m3 = fill(Storage::e4m3), e5m2 = fill(Storage::e5m2),
                                       e8m0 = fill(Storage::e8m0), e2m1 = fill(Storage::e2m1);
  switch (storage) {
    case Storage::e4m3: return e4m3;
    case Storage::e5m2: return e5m2;
    case Storage::e8m0: return e8m0;
    default: return e2m1;
  }
}

// Calls `read(position)` for each element; the storage is looked at once, outside the loop.
template <class Position>
void load_each(const HostTensor& tensor, int64_t count, double* into, Position position) {
  auto each = [&](auto read) {
    for (int64_t i = 0; i < count; ++i) into[i] = read(position(i));
  };
  switch (tensor.storage) {
    case Storage::f32: return each([&](int64_t p) { return double{read_as<float>(tensor, p)}; });
    case Storage::bf16:
      // The upper half of an f32, by definition of the format.
      return each([&](int64_t p) {
        return double{std::bit_cast<float>(static_cast<uint32_t>(read_as<uint16_t>(tensor, p)) << 16)};
      });
    case Storage::f16: return each([&](int64_t p) { return decode(Storage::f16, read_as<uint16_t>(tensor, p)); });
    case Storage::e4m3:
    case Storage::e5m2:
    case Storage::e8m0: {
      const std::array<double, 256>& values = code_values(tensor.storage);
      return each([&](int64_t p) { return values[tensor.bytes[p]]; });
    }
    case Storage::e2m1: {
      const std::array<double, 256>& values = code_values(Storage::e2m1);
      return each([&](int64_t p) { return values[load_code(tensor, p)]; });
    }
    case Storage::i32: return each([&](int64_t p) { return double(read_as<int32_t>(tensor, p)); });
    case Storage::i64: return each([&](int64_t p) { return static_cast<double>(read_as<int64_t>(tensor, p)); });
  }
}

}  // namespace

int64_t HostTensor::elements() const {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return count;
}

std::vector<int64_t> HostTensor::strides() const {
  std::vector<int64_t> result(extents.size());
  int64_t step = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    result[i] = step;
    step *= extents[i];
  }
  return result;
}

HostTensor make_tensor(Storage storage, std::vector<int64_t> extents, uint8_t fill) {
  HostTensor tensor{storage, std::move(extents), {}};
  tensor.bytes.assign(static_cast<size_t>(storage_bytes(storage, tensor.elements())), fill);
  return tensor;
}

void load(const HostTensor& tensor, int64_t first, int64_t step, int64_t count, double* into) {
  load_each(tensor, count, into, [=](int64_t i) { return first + i * step; });
}

void load_at(const HostTensor& tensor, const int64_t* positions, int64_t count, double* into) {
  load_each(tensor, count, into, [=](int64_t i) { return positions[i]; });
}

double load_one(const HostTensor& tensor, int64_t position) {
  double value;
  load(tensor, position, 1, 1, &value);
  return value;
}

int64_t load_integer(const HostTensor& tensor, int64_t position) {
  if (tensor.storage == Storage::i32) return read_as<int32_t>(tensor, position);
  EPIFUSE_ENSURE(tensor.storage == Storage::i64, "an integer is read from a tensor of floats");
  return read_as<int64_t>(tensor, position);
}

uint32_t load_code(const HostTensor& tensor, int64_t position) {
  switch (storage_bits(tensor.storage)) {
    case 4: return (tensor.bytes[position / 2] >> (position % 2 * 4)) & 0xF;
    case 8: return tensor.bytes[position];
    case 16: return read_as<uint16_t>(tensor, position);
    default: return read_as<uint32_t>(tensor, position);
  }
}

void store_code(HostTensor& tensor, int64_t position, uint32_t code) {
  switch (storage_bits(tensor.storage)) {
    case 4: {
      const int shift = position % 2 * 4;
      uint8_t& byte = tensor.bytes[position / 2];
      byte = static_cast<uint8_t>((byte & ~(0xF << shift)) | (code << shift));
      return;
    }
    case 8: tensor.bytes[position] = static_cast<uint8_t>(code); return;
    case 16: return write_as(tensor, position, static_cast<uint16_t>(code));
    default: return write_as(tensor, position, code);
  }
}

void store_one(HostTensor& tensor, int64_t position, double value) {
  if (tensor.storage == Storage::i32) return write_as(tensor, position, static_cast<int32_t>(value));
  if (tensor.storage == Storage::i64) return write_as(tensor, position, static_cast<int64_t>(value));
  store_code(tensor, position, encode(tensor.storage, value));
}

}  // namespace epifuse::interpreter
