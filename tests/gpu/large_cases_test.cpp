// Cases of tensors with more than 2^31 elements: README.md of tests/cases says what each is about.
#include <fmt/format.h>

#include "compiler/interpreter/interpreter.h"
#include "tests/gpu/support/kernels.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;
using interpreter::load_code;
using interpreter::load_one;
using interpreter::store_one;

namespace {

constexpr int64_t limit = int64_t{1} << 31;

// Device tensors by name; what is not uploaded holds `fill` in every byte.
class LargeTensors {
 public:
  void add(const std::string& name, Storage storage, std::vector<int64_t> extents, uint8_t fill) {
    int64_t elements = 1;
    for (const int64_t extent : extents) elements *= extent;
    auto buffer =
        must(runtime::DeviceBuffer::allocate(gpu().device, static_cast<size_t>(storage_bytes(storage, elements))));
    must(buffer.fill(fill, gpu().stream.get()));
    arguments.tensors.push_back({name, buffer.pointer(), std::move(extents), {}, storage});
    buffers_.emplace(name, std::move(buffer));
  }

  void drop(const std::string& name) {
    buffers_.erase(name);
    std::erase_if(arguments.tensors, [&](const runtime::TensorArgument& tensor) { return tensor.name == name; });
  }

  // `count` elements of `from`, from `first` on, to those of `to` from `at` on.
  void put(const HostTensor& from, int64_t first, int64_t count, const std::string& to, int64_t at) {
    const int64_t size = storage_bits(from.storage) / 8;
    const auto bytes =
        std::span(from.bytes).subspan(static_cast<size_t>(first * size), static_cast<size_t>(count * size));
    must(buffers_.at(to).upload(std::as_bytes(bytes), gpu().stream.get(), static_cast<size_t>(at * size)));
  }
  // How many of `count` elements differ from those of `wanted`, from `first` on.
  int64_t differences(const std::string& name, int64_t at, const HostTensor& wanted, int64_t first,
                      int64_t count) const {
    const int64_t size = storage_bits(wanted.storage) / 8;
    std::vector<uint8_t> got(static_cast<size_t>(count * size));
    must(buffers_.at(name).download(std::as_writable_bytes(std::span(got)), gpu().stream.get(),
                                    static_cast<size_t>(at * size)));
    int64_t different = 0;
    for (int64_t i = 0; i < count * size; ++i)
      different += got[static_cast<size_t>(i)] != wanted.bytes[static_cast<size_t>(first * size + i)];
    return different;
  }

  void run(const jit::CompiledKernelPtr& kernel) {
    arguments.dims = kernel->dims();
    const runtime::ModulePtr module = must(engine().load(kernel, gpu().device)).module;
    const int64_t bytes = must(runtime::workspace_bytes(*module, arguments));
    const auto workspace = must(runtime::DeviceBuffer::allocate(gpu().device, static_cast<size_t>(bytes)));
    arguments.workspace = {workspace.pointer(), bytes};
    const auto call = must(runtime::bind_call(module, arguments));
    must(call.launch(gpu().stream.get()));
    must(call.synchronize(gpu().stream.get()));
  }

  runtime::Arguments arguments;

 private:
  std::map<std::string, runtime::DeviceBuffer> buffers_;
};

bool has_room_for(int64_t gigabytes) {
  const runtime::CurrentContext scope(*gpu().device);
  size_t free = 0, total = 0;
  REQUIRE(gpu().device->driver().mem_get_info(&free, &total) == cuda::Code::success);
  if (free >> 30 >= static_cast<size_t>(gigabytes)) return true;
  WARN("not run: " << gigabytes << " GiB of GPU memory are needed, " << (free >> 30) << " are free");
  return false;
}

}  // namespace

TEST_CASE("B82 B84: rows on both sides of element 2^31, as rows and transposed") {
  if (!has_room_for(20)) return;
  constexpr int64_t depth = 64, last_rows = 320, first_rows = 32, place = 128;
  for (const int64_t width : {2048, 6144}) {
    INFO("rows of " << width);
    const int64_t bad_row = (limit + width - 1) / width;  // the first whose elements all lie behind 2^31
    const int64_t before = bad_row / place * place - place, rows = before + last_rows;
    const int64_t places = (rows + 2 * (place - 1)) / place * place;
    REQUIRE(before + last_rows > bad_row + 1);
    REQUIRE((width - 1) * places + before > limit);
    const auto kernel = compile_spec(
        "kernel tall {\n  dim E = 2, K = 64, N = 64\n  group M by E\n  group P = M align 128\n  in x : bf16[M, K]\n"
        "  in w : bf16[E, N, K]\n  in r : bf16[M, N]\n  v = gemm(x, w) + r\n  out y : bf16[M, N] = v\n"
        "  out q : mxfp8[M, N] = v\n  out t : mxfp8[N, P] = v\n  out u : bf16[N, P] = v\n}\n",
        {{"N", width}});

    // The small problem: the first rows of the large one's first group, and all of its second. Sums are exact.
    Buffers small = {{"x", integer_tensor(Storage::bf16, {first_rows + last_rows, depth}, 1, 2)},
                     {"w", integer_tensor(Storage::bf16, {2, width, depth}, 2, 2)},
                     {"r", integer_tensor(Storage::bf16, {first_rows + last_rows, width}, 3, 3)},
                     {"M.ends", tensor_of(Storage::i32, {2}, {first_rows, first_rows + last_rows})}};
    const Buffers wanted = must(interpreter::run(kernel->planned.graph, small));

    // Rows between them hold NaN.
    LargeTensors large;
    large.add("x", Storage::bf16, {rows, depth}, 0xFF);
    large.add("w", Storage::bf16, {2, width, depth}, 0xFF);
    large.add("r", Storage::bf16, {rows, width}, 0xFF);
    large.add("M.ends", Storage::i32, {2}, 0xFF);
    large.add("y", Storage::bf16, {rows, width}, 0x5A);
    large.add("q", Storage::e4m3, {rows, width}, 0x5A);
    large.add("q.scale", Storage::e8m0, {rows, width / 32}, 0x5A);
    large.add("t", Storage::e4m3, {width, places}, 0x5A);
    large.add("t.scale", Storage::e8m0, {width, places / 32}, 0x5A);
    large.add("u", Storage::bf16, {width, places}, 0x5A);
    for (const std::string name : {"x", "r"}) {
      const int64_t columns = small[name].extents[1];
      large.put(small[name], 0, first_rows * columns, name, 0);
      large.put(small[name], first_rows * columns, last_rows * columns, name, before * columns);
    }
    large.put(small["w"], 0, 2 * width * depth, "w", 0);
    large.put(tensor_of(Storage::i32, {2}, {static_cast<double>(before), static_cast<double>(rows)}), 0, 2, "M.ends",
              0);
    large.run(kernel);

    for (const std::string name : {"y", "q", "q.scale"}) {
      INFO(name);
      const int64_t columns = wanted.at(name).extents[1];
      CHECK(large.differences(name, 0, wanted.at(name), 0, first_rows * columns) == 0);
      CHECK(large.differences(name, before * columns, wanted.at(name), first_rows * columns, last_rows * columns) == 0);
    }
    // The second group starts at a multiple of 128 in both, and ends with its gap.
    constexpr int64_t with_gap = (last_rows + place - 1) / place * place;
    for (const std::string name : {"t", "t.scale", "u"}) {
      const int64_t unit = name == "t.scale" ? 32 : 1, columns = wanted.at(name).extents[1];
      int64_t wrong = 0;
      for (int64_t n = 0; n < width; n += n < width - 40 ? 37 : 1) {
        const int64_t at = n * (places / unit), from = n * columns;
        wrong += large.differences(name, at, wanted.at(name), from, first_rows / unit);
        wrong += large.differences(name, at + before / unit, wanted.at(name), from + place / unit, with_gap / unit);
      }
      INFO(name);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("B81: the weights of 64 experts, past 2^31 elements from the 37th on") {
  if (!has_room_for(9)) return;
  constexpr int64_t experts = 64, depth = 4096, columns = 14336, tokens = 2, patterns = 251;
  constexpr int64_t checked[] = {36, 37};
  static_assert(36 * depth * columns < limit && 37 * depth * columns > limit);
  // Row n of expert e holds pattern (n + 13 e) mod 251, in two experts; all other weights are zero.
  const HostTensor rows = integer_tensor(Storage::bf16, {patterns, depth}, 1, 2);
  const HostTensor x = integer_tensor(Storage::bf16, {experts * tokens, depth}, 2, 2);
  const std::vector<double> row_values = values_of(rows), x_values = values_of(x);
  const auto dot = [&](int64_t token, int64_t pattern) {
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += x_values[static_cast<size_t>(token * depth + k)] * row_values[static_cast<size_t>(pattern * depth + k)];
    return sum;
  };

  LargeTensors large;
  large.add("w", Storage::bf16, {experts, columns, depth}, 0);
  for (const int64_t e : checked) {
    HostTensor expert = interpreter::make_tensor(Storage::bf16, {columns, depth});
    for (int64_t n = 0; n < columns; ++n)
      std::copy_n(rows.bytes.begin() + (n + 13 * e) % patterns * depth * 2, depth * 2,
                  expert.bytes.begin() + n * depth * 2);
    large.put(expert, 0, columns * depth, "w", e * columns * depth);
  }
  large.add("x", Storage::bf16, {experts * tokens, depth}, 0);
  large.put(x, 0, x.elements(), "x", 0);
  large.add("M.ends", Storage::i32, {experts}, 0);
  large.put(tensor_by(Storage::i32, {experts}, [](int64_t e) { return static_cast<double>((e + 1) * tokens); }), 0,
            experts, "M.ends", 0);

  // The weight whole, in halves, whose second one is read from its own base, and transposed, as a data gradient reads
  // it.
  for (const std::string form : {"whole", "halves", "transposed"}) {
    INFO(form);
    const bool halves = form == "halves", transposed = form == "transposed";
    if (transposed) {
      large.drop("w");
      large.add("w", Storage::bf16, {experts, depth, columns}, 0);
      for (const int64_t e : checked) {
        HostTensor expert = interpreter::make_tensor(Storage::bf16, {depth, columns});
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t n = 0; n < columns; ++n)
            std::copy_n(rows.bytes.begin() + ((n + 13 * e) % patterns * depth + k) * 2, 2,
                        expert.bytes.begin() + (k * columns + n) * 2);
        large.put(expert, 0, depth * columns, "w", e * depth * columns);
      }
    }
    const auto kernel = compile_spec(fmt::format(
        "kernel wide {{\n  dim E = 64, K = 4096, I = 7168\n  group M by E\n  in x : bf16[M, K]\n"
        "  in w : bf16[E, {}]\n  {}\n}}\n",
        transposed ? "K, 2*I" : "2*I, K",
        halves ? "a, b = split(gemm(x, w))\n  out y : bf16[M, I] = a + b" : "out y : bf16[M, 2*I] = gemm(x, w)"));
    const int64_t width = halves ? columns / 2 : columns;
    HostTensor wanted = interpreter::make_tensor(Storage::bf16, {experts * tokens, width});
    for (const int64_t e : checked)
      for (int64_t token = e * tokens; token < (e + 1) * tokens; ++token) {
        std::vector<double> dots(patterns);
        for (int64_t pattern = 0; pattern < patterns; ++pattern)
          dots[static_cast<size_t>(pattern)] = dot(token, pattern);
        for (int64_t n = 0; n < width; ++n) {
          const auto column = [&](int64_t c) { return dots[static_cast<size_t>((c + 13 * e) % patterns)]; };
          interpreter::store_one(wanted, token * width + n, column(n) + (halves ? column(n + width) : 0));
        }
      }
    large.drop("y");
    large.add("y", Storage::bf16, {experts * tokens, width}, 0xFF);
    large.run(kernel);
    CHECK(large.differences("y", 0, wanted, 0, wanted.elements()) == 0);
  }
}

TEST_CASE("B81: weight gradients of 64 experts, past 2^31 elements from the 37th on") {
  if (!has_room_for(9)) return;
  constexpr int64_t experts = 64, depth = 4096, columns = 14336, tokens = 2;
  static_assert(36 * depth * columns < limit && 37 * depth * columns > limit);
  const auto kernel = compile_spec(
      "kernel wide {\n  dim E = 64, K = 4096, N = 14336\n  group M by E\n  in g : bf16[M, N]\n  in x : bf16[M, K]\n"
      "  out dw : bf16[E, N, K] = gemm(g, x)\n}\n");
  // The last expert has no tokens.
  const int64_t rows = (experts - 1) * tokens;
  const HostTensor g = integer_tensor(Storage::bf16, {rows, columns}, 1, 2);
  const HostTensor x = integer_tensor(Storage::bf16, {rows, depth}, 2, 2);
  LargeTensors large;
  large.add("g", Storage::bf16, {rows, columns}, 0);
  large.add("x", Storage::bf16, {rows, depth}, 0);
  large.add("M.ends", Storage::i32, {experts}, 0);
  large.add("dw", Storage::bf16, {experts, columns, depth}, 0xFF);
  large.put(g, 0, g.elements(), "g", 0);
  large.put(x, 0, x.elements(), "x", 0);
  large.put(tensor_by(Storage::i32, {experts},
                      [&](int64_t e) { return static_cast<double>(std::min((e + 1) * tokens, rows)); }),
            0, experts, "M.ends", 0);
  large.run(kernel);
  for (const int64_t e : {0, 36, 37, 62, 63}) {
    int64_t wrong = 0;
    for (int64_t n = 0; n < columns; n += n < columns - 140 ? 137 : 1) {
      HostTensor row = interpreter::make_tensor(Storage::bf16, {depth});
      for (int64_t m = e * tokens; m < std::min((e + 1) * tokens, rows); ++m)
        for (int64_t k = 0; k < depth; ++k)
          store_one(row, k, load_one(row, k) + load_one(g, m * columns + n) * load_one(x, m * depth + k));
      wrong += large.differences("dw", (e * columns + n) * depth, row, 0, depth);
    }
    INFO("expert " << e);
    CHECK(wrong == 0);
  }
}

TEST_CASE("B82 B84: a weight gradient over rows on both sides of element 2^31") {
  if (!has_room_for(6)) return;
  constexpr int64_t depth = 64, last_rows = 320, first_rows = 32;
  for (const int64_t width : {2048, 6144}) {
    INFO("rows of " << width);
    const int64_t bad_row = (limit + width - 1) / width;  // the first whose elements all lie behind 2^31
    const int64_t before = bad_row / 8 * 8 - 128, rows = before + last_rows;
    REQUIRE(rows > bad_row + 1);
    const auto kernel = compile_spec(
        "kernel tall {\n  dim E = 2, K = 64, N = 64\n  group M by E\n  in g : bf16[M, N]\n  in x : bf16[M, K]\n"
        "  out dw : f32[E, N, K] = gemm(g, x)\n}\n",
        {{"N", width}});
    // The small problem: the first rows of the first group, whose other rows are zero, and all of the second.
    Buffers small = {{"g", integer_tensor(Storage::bf16, {first_rows + last_rows, width}, 1, 2)},
                     {"x", integer_tensor(Storage::bf16, {first_rows + last_rows, depth}, 2, 2)},
                     {"M.ends", tensor_of(Storage::i32, {2}, {first_rows, first_rows + last_rows})}};
    const Buffers wanted = must(interpreter::run(kernel->planned.graph, small));
    LargeTensors large;
    large.add("g", Storage::bf16, {rows, width}, 0);
    large.add("x", Storage::bf16, {rows, depth}, 0);
    large.add("M.ends", Storage::i32, {2}, 0);
    large.add("dw", Storage::f32, {2, width, depth}, 0xFF);
    for (const std::string name : {"g", "x"}) {
      const int64_t columns = small[name].extents[1];
      large.put(small[name], 0, first_rows * columns, name, 0);
      large.put(small[name], first_rows * columns, last_rows * columns, name, before * columns);
    }
    large.put(tensor_of(Storage::i32, {2}, {static_cast<double>(before), static_cast<double>(rows)}), 0, 2, "M.ends",
              0);
    large.run(kernel);
    CHECK(large.differences("dw", 0, wanted.at("dw"), 0, 2 * width * depth) == 0);
  }
}
