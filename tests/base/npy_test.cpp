// NumPy files: round trips, files that NumPy wrote, and files that lie.
#include "base/npy.h"

#include <cstring>
#include <fstream>
#include <sstream>

#include "base/numbers.h"
#include "tests/support/catch.h"

namespace epifuse {
namespace {

std::string numpy_file(const std::string& name) {
  std::ifstream file(std::string(EPIFUSE_SOURCE_DIR) + "/tests/vectors/numpy/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A .npy file with any header.
std::string file_with(const std::string& header, const std::string& data, char version = 1) {
  std::string result = "\x93NUMPY";
  result += version;
  result += '\0';
  const size_t width = version == 1 ? 2 : 4;
  for (size_t i = 0; i < width; ++i) result += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return result + header + data;
}

std::string message(const Result<NpyArray>& result) { return result ? "" : result.error().message; }

TEST_CASE("arrays come back") {
  const NpyArray array{"<f4", {2, 3}, raw<float>({0, 1, 2, 3, 4, 5})};
  const std::string file = write_npy(array);
  CHECK(file.size() % 64 == 24 % 64);
  const Result<NpyArray> back = read_npy(file, "x.npy");
  REQUIRE(back);
  CHECK(back->dtype == "<f4");
  CHECK(back->shape == array.shape);
  CHECK(back->data == array.data);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}, {0, 7}}) {
    const NpyArray other{"|u1", shape, std::string(shape.size() == 2 ? 0 : 1, 'x')};
    const Result<NpyArray> other_back = read_npy(write_npy(other), "x");
    REQUIRE(other_back);
    CHECK(other_back->shape == shape);
  }
  const Result<NpyArray> version2 =
      read_npy(file_with("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n", "abcd", 2), "x");
  REQUIRE(version2);
  CHECK(version2->data == "abcd");
}

TEST_CASE("files that NumPy wrote") {
  const Result<NpzArrays> arrays = read_npz(numpy_file("savez.npz"), "savez.npz");
  INFO((arrays ? "" : arrays.error().message));
  REQUIRE(arrays);
  REQUIRE(arrays->size() == 2);
  CHECK((*arrays)[0].first == "a");
  CHECK((*arrays)[0].second.shape == std::vector<int64_t>{2, 3});
  CHECK((*arrays)[0].second.data == raw<float>({0, 1, 2, 3, 4, 5}));
  CHECK((*arrays)[1].first == "n");
  CHECK((*arrays)[1].second.data == raw<int64_t>({1, -2}));

  const Result<NpzArrays> compressed = read_npz(numpy_file("savez_compressed.npz"), "c.npz");
  REQUIRE(!compressed);
  CHECK(compressed.error().message.find("numpy.savez") != std::string::npos);
  CHECK(message(read_npy(numpy_file("fortran.npy"), "f.npy")).find("Fortran order") != std::string::npos);
}

TEST_CASE("archives come back, and damage is seen") {
  const NpzArrays arrays = {{"y", {"|u1", {4}, "abcd"}}, {"y.scale", {"|u1", {1}, "e"}}};
  const Result<std::string> written = write_npz(arrays);
  REQUIRE(written);
  const Result<NpzArrays> back = read_npz(*written, "x.npz");
  REQUIRE(back);
  REQUIRE(back->size() == 2);
  CHECK((*back)[1].first == "y.scale");
  CHECK((*back)[1].second.data == "e");
  // Every cut and every flipped byte is an error or leaves the arrays as they were.
  for (size_t length = 0; length < written->size(); ++length) CHECK(!read_npz(written->substr(0, length), "x.npz"));
  for (size_t i = 0; i < written->size(); ++i) {
    std::string damaged = *written;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    const Result<NpzArrays> result = read_npz(damaged, "x.npz");
    if (!result || result->size() != 2) continue;
    CHECK((*result)[0].second.data == "abcd");
    CHECK((*result)[1].second.data == "e");
  }
  const Result<std::string> twice = write_npz({arrays[0], arrays[0]});
  CHECK(!read_npz(*twice, "x.npz"));
}

TEST_CASE("hostile headers") {
  const auto header = [](const std::string& descr, const std::string& shape) {
    return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  };
  const std::string data(16, 'x');
  CHECK(read_npy(file_with(header("<f4", "(4,)"), data), "x"));
  for (const std::string shape :
       {"(5,)", "(3,)", "(9223372036854775807, 4)", "(4611686018427387904, 4)", "(99999999999999999999,)", "(-4,)",
        "(4", "4", "(4, 'x')", "(4,) + (1,)", "(4L,)", "()"})
    CHECK(!read_npy(file_with(header("<f4", shape), data), "x"));
  // 2^62 elements of 16 axes of 16: the product wraps to zero.
  CHECK(!read_npy(file_with(header("<f4", "(65536, 65536, 65536, 65536)"), ""), "x"));
  std::string many = "(";
  for (int i = 0; i < 100; ++i) many += "1, ";
  CHECK(!read_npy(file_with(header("<f4", many + ")"), "abcd"), "x"));
  for (const std::string descr : {">f4", "<c8", "|O", "<f16", "<U4", "", "<f44"}) {
    const std::string text = message(read_npy(file_with(header(descr, "(4,)"), data), "x"));
    CHECK(text.find("dtype '" + descr + "'") != std::string::npos);
  }
  CHECK(!read_npy(file_with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }", data), "x"));
  CHECK(!read_npy(file_with("{'descr': '<f4', 'shape': (4,), }", data), "x"));
  CHECK(!read_npy(file_with(header("<f4", "(4,)") + "}", data), "x"));
  const std::string good = file_with(header("<f4", "(4,)"), data);
  for (size_t length = 0; length < good.size(); ++length) CHECK(!read_npy(good.substr(0, length), "x"));
  CHECK(!read_npy(good + "x", "x"));
  std::string lying = good;
  lying[8] = lying[9] = '\xFF';
  CHECK(message(read_npy(lying, "x")).find("header") != std::string::npos);
  CHECK(message(read_npy("PK\x03\x04 something", "x")).find("no .npy file") != std::string::npos);
}

TEST_CASE("floats are rounded once, to nearest even") {
  const NpyArray doubles{"<f8", {4}, raw<double>({1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8, -0.0, 1e300})};
  const Result<std::string> bf16 = npy_to_storage(doubles, Storage::bf16, {4}, "x");
  REQUIRE(bf16);
  CHECK(*bf16 == raw<uint16_t>({0x3F81, 0x3F80, 0x8000, 0x7F80}));
  CHECK(*npy_to_storage(doubles, Storage::e4m3, {4}, "x") == std::string("\x38\x38\x80\x7E", 4));
  CHECK(*npy_to_storage(doubles, Storage::f32, {4}, "x") ==
        raw<float>({1 + 0x1p-8f, 1 + 0x1p-8f, -0.0f, std::numeric_limits<float>::infinity()}));
  const NpyArray singles{"<f4", {2, 3}, raw<float>({0.5, -1, 1.5, 6, 100, -0.0})};
  // Two to a byte, the even element low.
  CHECK(*npy_to_storage(singles, Storage::e2m1, {2, 3}, "x") == std::string("\xA1\x73\x87", 3));
}

TEST_CASE("bits are taken as they are, and other types are refused by name") {
  const NpyArray bits{"<u2", {2}, raw<uint16_t>({0x3F80, 0xFFC0})};
  CHECK(*npy_to_storage(bits, Storage::bf16, {2}, "x") == bits.data);
  CHECK(!npy_to_storage(bits, Storage::f16, {2}, "x"));
  const NpyArray bytes{"|u1", {2, 2}, "abcd"};
  CHECK(*npy_to_storage(bytes, Storage::e4m3, {2, 2}, "x") == "abcd");
  CHECK(*npy_to_storage(bytes, Storage::e8m0, {2, 2}, "x") == "abcd");
  CHECK(*npy_to_storage(bytes, Storage::e2m1, {2, 4}, "x") == "abcd");
  CHECK(!npy_to_storage(bytes, Storage::e2m1, {2, 2}, "x"));
  const Result<std::string> wrong = npy_to_storage(bytes, Storage::bf16, {2, 2}, "w");
  REQUIRE(!wrong);
  CHECK(wrong.error().message.find("'w'") != std::string::npos);
  CHECK(wrong.error().message.find("<u2") != std::string::npos);
  const Result<std::string> shape = npy_to_storage(bytes, Storage::e4m3, {4}, "w");
  REQUIRE(!shape);
  CHECK(shape.error().message.find("(2, 2)") != std::string::npos);
  CHECK(!npy_to_storage({"<f4", {1}, raw<float>({1})}, Storage::e8m0, {1}, "s"));

  const NpyArray wide{"<i8", {2}, raw<int64_t>({-5, 7})};
  CHECK(*npy_to_storage(wide, Storage::i32, {2}, "n") == raw<int32_t>({-5, 7}));
  CHECK(!npy_to_storage({"<i8", {1}, raw<int64_t>({int64_t{1} << 31})}, Storage::i32, {1}, "n"));
  CHECK(*npy_to_storage({"<i4", {2}, raw<int32_t>({-5, 7})}, Storage::i64, {2}, "n") == wide.data);
  CHECK(!npy_to_storage({"<f4", {1}, raw<float>({1})}, Storage::i32, {1}, "n"));
}

TEST_CASE("buffers become arrays") {
  const NpyArray packed = npy_from_storage(Storage::e2m1, {2, 4}, "abcd");
  CHECK(packed.dtype == "|u1");
  CHECK(packed.shape == std::vector<int64_t>{2, 2});
  CHECK(npy_extents(packed, Storage::e2m1) == std::vector<int64_t>{2, 4});
  // Rows that share a byte are no rows of bytes.
  CHECK(npy_from_storage(Storage::e2m1, {2, 3}, "abc").shape == std::vector<int64_t>{3});
  CHECK(npy_from_storage(Storage::bf16, {2}, "abcd").dtype == "<u2");
  CHECK(npy_from_storage(Storage::i64, {0}, "").dtype == "<i8");
}

}  // namespace
}  // namespace epifuse
