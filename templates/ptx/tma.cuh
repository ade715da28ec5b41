// Tensor copies by the copy engine (TMA) from global into shared memory, one function per rank. Coordinates run from
// the fastest axis to the slowest. The L2 hint says how soon a line may be dropped.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

EPIFUSE_DEVICE void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Read once and not again soon: epilogue inputs, so that they do not push the operands out of L2.
constexpr u64 l2_evict_first = 0x12F0000000000000ull;

EPIFUSE_DEVICE void tma_load_2d(u32 to, const TensorMap& map, u32 barrier, int c0, int c1, u64 hint) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "l"(hint)
      : "memory");
}

EPIFUSE_DEVICE void tma_load_2d(u32 to, const TensorMap& map, u32 barrier, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1)
      : "memory");
}

EPIFUSE_DEVICE void tma_load_3d(u32 to, const TensorMap& map, u32 barrier, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

EPIFUSE_DEVICE void tma_load_4d(u32 to, const TensorMap& map, u32 barrier, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

EPIFUSE_DEVICE void tma_load_5d(u32 to, const TensorMap& map, u32 barrier, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// To the same place in every CTA of the cluster that `ctas` has a bit for; each of their barriers is told.
EPIFUSE_DEVICE void tma_load_3d_to(u32 ctas, u32 to, const TensorMap& map, u32 barrier, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "h"(static_cast<u16>(ctas))
      : "memory");
}

EPIFUSE_DEVICE void tma_load_5d_to(u32 ctas, u32 to, const TensorMap& map, u32 barrier, int c0, int c1, int c2, int c3,
                                   int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "h"(static_cast<u16>(ctas))
      : "memory");
}

}  // namespace epifuse::ptx
