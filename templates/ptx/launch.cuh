// Programmatic dependent launch: a launch may start while the ones before it in its stream are still running. Where the
// host has not asked for it, both instructions do nothing.
//
// Every entry waits first, in all of its threads: also a block that has nothing to do must not end before the launches
// in front of it, since the launch behind waits for this one alone.
#pragma once

#include "ptx/types.cuh"

namespace epifuse::ptx {

// Waits until all launches before this one have ended and what they wrote is visible. Until then, nothing may be read
// or written but the launch's own parameters and shared memory: what is written here may still be read there.
EPIFUSE_DEVICE void wait_for_launches_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the launch behind this one start once a thread of each CTA has come here, or the CTA has ended, and there is
// room. Not long before the end: blocks that wait hold multiprocessors that others could use.
EPIFUSE_DEVICE void start_launch_behind() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace epifuse::ptx
