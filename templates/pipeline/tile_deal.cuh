// Tiles that a counter on the device deals out. The operand producer of a CTA asks the counter for the next tile when
// it has almost loaded the one before, and tells the other roles, through a ring of shared memory for each consumer
// warpgroup, which tile is theirs and where in the operand ring it begins. A CTA that is slow, or comes late, so gets
// fewer tiles.
//
// Indices grow from tile to tile, as the walks want it.
#pragma once

#include "pipeline/ring.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"

namespace epifuse {

// Tiles that a consumer warpgroup may be behind the producer, beside the one it is at.
constexpr int deal_slots = 2;

// What a role is told. index: of the tile, or no_more_tiles. place: where the tile's first k-tile lies in the operand
// ring; behind the last tile, how many tiles the CTA had.
struct DealtTile {
  static constexpr int no_more_tiles = -1;
  int index;
  u32 place;

  EPIFUSE_DEVICE bool exists() const { return index != no_more_tiles; }
  template <int stages>
  static EPIFUSE_DEVICE u32 place_of(const RingState<stages>& at) {
    return static_cast<u32>(at.stage) | at.phase << 16;
  }
  template <int stages>
  EPIFUSE_DEVICE RingState<stages> begin() const {
    return {static_cast<int>(place & 0xffff), place >> 16};
  }
};

// The ring of one consumer warpgroup: slots of 8 bytes, then its barriers.
struct DealRing {
  static constexpr u32 bytes = 8 * deal_slots + Ring<deal_slots>::barrier_bytes;
  u32 shared;  // address

  EPIFUSE_DEVICE Ring<deal_slots> ring() const { return {shared + 8 * deal_slots}; }
  EPIFUSE_DEVICE u32 slot(int stage) const { return shared + 8 * stage; }
};

// The operand producer's end: one whole warp.
template <bool pingpong>
class TileDealer {
 public:
  // counter: of tiles that have been dealt, in global memory. shared: address of both consumers' rings.
  EPIFUSE_DEVICE TileDealer(void* counter, u32 shared) : counter_(counter), shared_(shared) { ask(); }

  // Asks the counter for the next tile: once for each that is dealt. The answer takes about a microsecond.
  EPIFUSE_DEVICE void ask() { answer_ = ptx::atomic_increment((ptx::thread_index_now() & 31) == 0, counter_); }
  EPIFUSE_DEVICE int answer() const { return ptx::warp_uniform(static_cast<int>(answer_)); }

  // Tells who works on it: in pingpong the consumers take turns, otherwise both do.
  template <int stages>
  EPIFUSE_DEVICE void deal(int index, const RingState<stages>& at) {
    const u32 place = DealtTile::place_of(at);
    if (!pingpong || (tiles_ & 1) == 0) send(0, index, place);
    if (!pingpong || (tiles_ & 1) != 0) send(1, index, place);
    ++tiles_;
  }
  EPIFUSE_DEVICE void close() const {
    send(0, DealtTile::no_more_tiles, static_cast<u32>(tiles_));
    send(1, DealtTile::no_more_tiles, static_cast<u32>(tiles_));
  }

 private:
  EPIFUSE_DEVICE void send(int consumer, int index, u32 place) const {
    const DealRing to{shared_ + consumer * DealRing::bytes};
    const auto at = RingState<deal_slots>::behind(pingpong ? (tiles_ + 1 - consumer) / 2 : tiles_);
    to.ring().wait_empty(at);
    if (ptx::elect()) {
      ptx::store_shared_64(to.slot(at.stage), static_cast<u32>(index), place);
      to.ring().publish(at);
    }
    __syncwarp();
  }

  void* counter_;
  u32 shared_;
  int tiles_ = 0;  // dealt so far
  u32 answer_;
};

// The end of a warp that works for a consumer warpgroup, or of one of the four of it.
class DealtTiles {
 public:
  EPIFUSE_DEVICE explicit DealtTiles(DealRing ring) : from_(ring) {}

  EPIFUSE_DEVICE DealtTile next() {
    from_.ring().wait_full(at_);
    const uint2 told = ptx::load_shared_64(from_.slot(at_.stage));
    const DealtTile tile{ptx::warp_uniform(static_cast<int>(told.x)),
                         static_cast<u32>(ptx::warp_uniform(static_cast<int>(told.y)))};
    // What counts is what this lane has read.
    if ((ptx::thread_index_now() & 31) == 0) from_.ring().release(at_.stage);
    at_.advance();
    return tile;
  }

 private:
  DealRing from_;
  RingState<deal_slots> at_;
};

}  // namespace epifuse
