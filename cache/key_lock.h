// The turn to make an entry, between processes. While whoever has it lives, the others wait: making it twice takes as
// long, and the processor besides.
//
// The system knows who lives where the disk knows locks (flock): it frees a lock when its holder ends, however it ends.
// Some network disks know none. There a claim, a file that one process created, stands for the lock; nobody sees
// whether its maker still lives, so waiting for it has an end. Locks only save work: what is stored is right without.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/file_system.h"
#include "base/log.h"

namespace epifuse::cache {

struct Patience {
  std::chrono::milliseconds progress_after{5000};    // then a log line says who is waited for …
  std::chrono::milliseconds progress_every{60000};   // … and again and again
  std::chrono::milliseconds without_locks{120'000};  // that a claim is honoured
};

// The lock on the entry at `entry_path`; null when it is not to be had (the disk is full, or read-only), or when
// `appeared`, asked after every try, says that somebody else has made the entry.
std::unique_ptr<FileLock> wait_for_lock(FileSystem& disk, const std::string& entry_path, const Patience& patience,
                                        const LogSink& log, const std::function<bool()>& appeared);

}  // namespace epifuse::cache
