// The reference's products on a GPU: double precision, one thread for each element, no code shared with the templates.
// It makes a judgement of a large kernel take seconds where the CPU takes minutes.
//
// It is not trusted: in every run a random sample of its results is compared with the CPU's, and a difference is an
// InternalError.
#pragma once

#include <memory>

#include "compiler/interpreter/gemm.h"
#include "compiler/toolchain/toolchain.h"
#include "jit/engine.h"

namespace epifuse::jit {

// Products of fewer multiply-adds than `from` are made on the CPU, and so are all where the kernel is in no cache and
// the engine compiles nothing. The engine must outlive the provider.
std::unique_ptr<interpreter::GemmProvider> gpu_gemm(Engine& engine, runtime::DevicePtr device, double from = 0,
                                                    int threads = 0);

// The kernel for operands of these types on a target, and how it is launched. Symbols: `row_begin`, `rows`,
// `col_begin`, `cols`, `a_k`, `b_k`, `depth`, `a_step` and `b_step` as in interpreter::GemmTask and GemmBlock. Tensors:
// `a` and `b`, the operands' buffers; `a_rows` and `b_rows`, GemmOperand::rows; `c`, the block's result [rows, cols],
// whose doubles pass as i64.
struct ReferenceGemmText {
  toolchain::CompileRequest request;
  LaunchRecipe recipe;
};
ReferenceGemmText reference_gemm_text(Storage a, Storage b, const Target& target);

}  // namespace epifuse::jit
