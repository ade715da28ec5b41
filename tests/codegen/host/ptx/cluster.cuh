// Stand-in: the blocks of a cluster have a stretch of the shared addresses each.
#pragma once

#include "ptx/mbarrier.cuh"

namespace epifuse::ptx {

constexpr u32 host_cta_bytes = 16 * 1024;

inline u32 cluster_rank() { return host::Block::current_block->rank(); }
inline void cluster_sync() { host::Block::current_block->sync_cluster(); }
// Where an address of one block lies in another.
inline u32 address_in(u32 rank, u32 address) { return address % host_cta_bytes + rank * host_cta_bytes; }
inline void mbarrier_arrive_at(u32 barrier, u32 rank) { mbarrier_arrive(address_in(rank, barrier)); }

}  // namespace epifuse::ptx
