// wgmma.mma_async m64nNk16 with f32 accumulators and both operands in shared memory, as one function per (operand, N)
// and majors.
//
// Layout: lane 4q+l of warp w holds, in register i, row 16w + q + 8*((i>>1)&1) and column 8*(i/4) + 2l + (i&1).
// The operand text of an instruction lists its N/2 registers by number, so it is assembled from pieces of 16.
#pragma once

#include "atom/operand.cuh"

namespace epifuse {

#define EPIFUSE_REGISTERS_A "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define EPIFUSE_REGISTERS_B ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define EPIFUSE_REGISTERS_C ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define EPIFUSE_REGISTERS_D ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define EPIFUSE_REGISTERS_E ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define EPIFUSE_REGISTERS_F ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define EPIFUSE_REGISTERS_G \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define EPIFUSE_REGISTERS_H \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define EPIFUSE_ACC4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define EPIFUSE_ACC16(d, i) EPIFUSE_ACC4(d, i), EPIFUSE_ACC4(d, i + 4), EPIFUSE_ACC4(d, i + 8), EPIFUSE_ACC4(d, i + 12)
#define EPIFUSE_ACC32(d, i) EPIFUSE_ACC16(d, i), EPIFUSE_ACC16(d, i + 16)

#define EPIFUSE_REGISTERS_64 EPIFUSE_REGISTERS_A EPIFUSE_REGISTERS_B
#define EPIFUSE_REGISTERS_96 EPIFUSE_REGISTERS_64 EPIFUSE_REGISTERS_C
#define EPIFUSE_REGISTERS_128 EPIFUSE_REGISTERS_96 EPIFUSE_REGISTERS_D
#define EPIFUSE_REGISTERS_160 EPIFUSE_REGISTERS_128 EPIFUSE_REGISTERS_E
#define EPIFUSE_REGISTERS_192 EPIFUSE_REGISTERS_160 EPIFUSE_REGISTERS_F
#define EPIFUSE_REGISTERS_256 EPIFUSE_REGISTERS_192 EPIFUSE_REGISTERS_G EPIFUSE_REGISTERS_H
#define EPIFUSE_ACCUMULATORS_64(d) EPIFUSE_ACC32(d, 0)
#define EPIFUSE_ACCUMULATORS_96(d) EPIFUSE_ACCUMULATORS_64(d), EPIFUSE_ACC16(d, 32)
#define EPIFUSE_ACCUMULATORS_128(d) EPIFUSE_ACCUMULATORS_96(d), EPIFUSE_ACC16(d, 48)
#define EPIFUSE_ACCUMULATORS_160(d) EPIFUSE_ACCUMULATORS_128(d), EPIFUSE_ACC16(d, 64)
#define EPIFUSE_ACCUMULATORS_192(d) EPIFUSE_ACCUMULATORS_160(d), EPIFUSE_ACC16(d, 80)
#define EPIFUSE_ACCUMULATORS_256(d) EPIFUSE_ACCUMULATORS_192(d), EPIFUSE_ACC32(d, 96)

template <class Operand, int columns, Major a, Major b>
struct Wgmma;

// operand_a, operand_b: descriptors (atom/operand.cuh). accumulate 0: d = a*b, else d += a*b.
#define EPIFUSE_WGMMA(Operand, text, columns, at_a, at_b, on, a_mn, b_mn)                                        \
  template <Major a, Major b>                                                                                    \
  struct Wgmma<Operand, columns, a, b> {                                                                         \
    static EPIFUSE_DEVICE void multiply(float (&d)[columns / 2], u64 operand_a, u64 operand_b, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " on                                                        \
                   ", 0;\n"                                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." text "." text                         \
                   " {" EPIFUSE_REGISTERS_##columns "}, " at_a ", " at_b ", p, 1, 1, " a_mn ", " b_mn ";\n}"     \
                   : EPIFUSE_ACCUMULATORS_##columns(d)                                                           \
                   : "l"(operand_a), "l"(operand_b), "r"(accumulate), "n"(static_cast<int>(a)),                  \
                     "n"(static_cast<int>(b)));                                                                  \
    }                                                                                                            \
  };

EPIFUSE_WGMMA(bf16, "bf16", 64, "%32", "%33", "%34", "%35", "%36")
EPIFUSE_WGMMA(bf16, "bf16", 96, "%48", "%49", "%50", "%51", "%52")
EPIFUSE_WGMMA(bf16, "bf16", 128, "%64", "%65", "%66", "%67", "%68")
EPIFUSE_WGMMA(bf16, "bf16", 160, "%80", "%81", "%82", "%83", "%84")
EPIFUSE_WGMMA(bf16, "bf16", 192, "%96", "%97", "%98", "%99", "%100")
EPIFUSE_WGMMA(bf16, "bf16", 256, "%128", "%129", "%130", "%131", "%132")
EPIFUSE_WGMMA(f16, "f16", 64, "%32", "%33", "%34", "%35", "%36")
EPIFUSE_WGMMA(f16, "f16", 96, "%48", "%49", "%50", "%51", "%52")
EPIFUSE_WGMMA(f16, "f16", 128, "%64", "%65", "%66", "%67", "%68")
EPIFUSE_WGMMA(f16, "f16", 160, "%80", "%81", "%82", "%83", "%84")
EPIFUSE_WGMMA(f16, "f16", 192, "%96", "%97", "%98", "%99", "%100")
EPIFUSE_WGMMA(f16, "f16", 256, "%128", "%129", "%130", "%131", "%132")

#undef EPIFUSE_WGMMA

}  // namespace epifuse
