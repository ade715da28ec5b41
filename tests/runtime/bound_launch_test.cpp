// What a launch of a bound call never does on the host: take memory, take a lock, or read the environment. The C
// library's functions are replaced in this program, and count who calls them.
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <shared_mutex>

#include "runtime/bind.h"
#include "tests/runtime/sample_call.h"
#include "tests/support/idle_driver.h"

namespace {

// Of this thread, so that nothing else in the process counts. Volatile, because a compiler knows that malloc changes
// no variable.
struct Counts {
  int allocations = 0, locks = 0, environment = 0;
  bool operator==(const Counts&) const = default;
};
thread_local constinit volatile int allocations = 0, locks = 0, environment = 0;

void count(volatile int& calls) { calls = calls + 1; }

// The function that the program's own stands before.
template <class Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Exported, so that libraries call them as well.
#define EPIFUSE_REPLACES extern "C" __attribute__((visibility("default")))

#define EPIFUSE_COUNTED_LOCK(name, type)           \
  EPIFUSE_REPLACES int name(type* lock) noexcept { \
    static const auto real = next(&name, #name);   \
    count(locks);                                  \
    return real(lock);                             \
  }
EPIFUSE_COUNTED_LOCK(pthread_mutex_lock, pthread_mutex_t)
EPIFUSE_COUNTED_LOCK(pthread_mutex_trylock, pthread_mutex_t)
EPIFUSE_COUNTED_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
EPIFUSE_COUNTED_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)

EPIFUSE_REPLACES char* getenv(const char* name) noexcept {
  static const auto real = next(&getenv, "getenv");
  count(environment);
  return real(name);
}

#if defined(__SANITIZE_ADDRESS__)
// The sanitizer has replaced them already, and tells (sanitizer/allocator_interface.h, which not every g++ comes with).
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),
                                                         void (*)(const volatile void*));
namespace {
const int told = __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { count(allocations); },
                                                           [](const volatile void*) {});
}
#else
extern "C" {
void* __libc_malloc(size_t) noexcept;
void* __libc_calloc(size_t, size_t) noexcept;
void* __libc_realloc(void*, size_t) noexcept;
void* __libc_memalign(size_t, size_t) noexcept;
}
EPIFUSE_REPLACES void* malloc(size_t bytes) noexcept {
  count(allocations);
  return __libc_malloc(bytes);
}
EPIFUSE_REPLACES void* calloc(size_t number, size_t bytes) noexcept {
  count(allocations);
  return __libc_calloc(number, bytes);
}
EPIFUSE_REPLACES void* realloc(void* old, size_t bytes) noexcept {
  count(allocations);
  return __libc_realloc(old, bytes);
}
EPIFUSE_REPLACES void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  count(allocations);
  return __libc_memalign(alignment, bytes);
}
#endif

using namespace epifuse;
using namespace epifuse::runtime;
using test::sample_arguments;

namespace {

// What `work` did.
template <class Work>
Counts of(Work work) {
  const Counts before{allocations, locks, environment};
  work();
  return {allocations - before.allocations, locks - before.locks, environment - before.environment};
}

const auto stream = reinterpret_cast<cuda::Stream>(0x77);
constexpr int times = 10000;

}  // namespace

TEST_CASE("what takes memory, takes a lock or reads the environment is counted") {
  CHECK(of([] { ::operator delete(::operator new(24)); }).allocations == 1);
  CHECK(of([] { ::operator delete(::operator new(128, std::align_val_t(64)), std::align_val_t(64)); }).allocations ==
        1);
  void* volatile memory = nullptr;  // or the compiler leaves both calls out
  CHECK(of([&] {
          memory = std::malloc(24);
          std::free(memory);
        }).allocations == 1);
  std::mutex mutex;
  CHECK(of([&] { const std::lock_guard<std::mutex> guard(mutex); }).locks == 1);
  std::shared_mutex shared;
  CHECK(of([&] { const std::shared_lock<std::shared_mutex> guard(shared); }).locks == 1);
  CHECK(of([] { (void)std::getenv("HOME"); }).environment == 1);
}

TEST_CASE("a bound launch takes no memory and no lock, and reads no environment") {
  const DevicePtr device = *Device::open(test::idle_driver(), 0);
  const ModulePtr module = *Module::load(device, test::sample_image());
  const Arguments arguments = sample_arguments();
  std::optional<BoundCall> call;
  CHECK(of([&] { call = *bind_call(module, arguments); }).allocations > 0);

  int failures = 0;
  const auto launch = [&](const LaunchOptions& options) {
    return of([&] {
      for (int i = 0; i < times; ++i) failures += !call->launch(stream, options);
    });
  };
  CHECK(launch({}) == Counts{});
  CHECK(launch({.sm_margin = 16}) == Counts{});
  CHECK(launch({.overlap_previous = true}) == Counts{});

  // Other buffers of the same sizes neither.
  cuda::DevicePointer addresses[] = {0x10000, 0x20000, 0x80000, 0x90000, 0xa0000};
  CHECK(of([&] {
          for (int i = 0; i < times; ++i) {
            for (cuda::DevicePointer& address : addresses) address ^= 0x1000000U;
            failures += !call->rebind(addresses, 0xb0000 + (i % 2 == 0 ? 0x1000000U : 0U));
            failures += !call->launch(stream);
          }
        }) == Counts{});
  CHECK(failures == 0);
}
