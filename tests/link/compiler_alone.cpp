// The compiler with neither cache, runtime nor driver: a machine without a GPU plans and spells kernels for any GPU.
#include "compiler/compiler.h"

int main() {
  using namespace epifuse;
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("double.epi",
                                       "kernel twice {\n dim K = 64, N = 64\n dyn S\n in x : bf16[S, K]\n"
                                       " in w : bf16[N, K]\n out y : f32[S, N] = 2 * gemm(x, w)\n}\n",
                                       no_files, diagnostics);
  const auto text = emit_stage(Stage::cuda, program, "twice", {}, diagnostics);
  return text && text->find("kernel_twice") != std::string::npos ? 0 : 1;
}
