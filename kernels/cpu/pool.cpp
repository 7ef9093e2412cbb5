#include "pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "active.h"

namespace triton_ads {
namespace {

constexpr uint32_t kOpen = 1u << 31;
constexpr auto kSpin = std::chrono::microseconds(50);

inline void pause_thread() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

std::atomic<Pool*> current{nullptr};
std::mutex creating;

// A child process has no helpers. Its pool is a new one; the old one, whose locks may be held, is left alone.
void after_fork_in_child() { current.store(nullptr); }

int quota_cores() {
  FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!file) return 1 << 16;
  long quota = 0, period = 0;
  const int read = std::fscanf(file, "%ld %ld", &quota, &period);
  std::fclose(file);
  if (read != 2 || quota <= 0 || period <= 0) return 1 << 16;  // "max"
  return std::max(1, int(std::ceil(double(quota) / double(period))));
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  const int affine = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  static const int quota = quota_cores();
  return std::max(1, std::min(affine, quota));
}

Pool& Pool::shared() {
  if (Pool* pool = current.load(std::memory_order_acquire)) return *pool;
  static std::once_flag registered;
  std::call_once(registered, [] { pthread_atfork(nullptr, nullptr, after_fork_in_child); });
  const std::lock_guard<std::mutex> lock(creating);
  if (!current.load()) current.store(new Pool);  // never destroyed: its helpers run until the process ends
  return *current.load();
}

void Pool::work(Job& job) {
  // Pieces shrink towards the end: long ones keep the prefetcher's streams whole, short ones let all threads end at
  // the same time, whatever else the system runs on their cores.
  int first = job.next.load(std::memory_order_relaxed);
  for (;;) {
    if (first >= job.items) return;
    const int count = std::max(1, (job.items - first) / (2 * (1 + job.helpers)));
    if (!job.next.compare_exchange_weak(first, first + count, std::memory_order_relaxed)) continue;
    job.piece(job.context, first, first + count);
    first = job.next.load(std::memory_order_relaxed);
  }
}

void Pool::help(int number) {
  uint32_t seen = 0;
  for (;;) {
    auto give_up = std::chrono::steady_clock::now() + kSpin;
    while (newest_.load(std::memory_order_acquire) == seen) {
      pause_thread();
      if (std::chrono::steady_clock::now() > give_up) newest_.wait(seen);
    }
    seen = newest_.load(std::memory_order_acquire);
    // The job is read only between joining an open door and leaving: the caller closes it, then waits for leavers.
    if (door_.fetch_add(1, std::memory_order_acq_rel) & kOpen) {
      if (number < job_->helpers) work(*job_);
    }
    door_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void Pool::start_helpers(int count) {
  while (int(helpers_.size()) < count) {
    const int number = int(helpers_.size());
    helpers_.emplace_back([this, number] { help(number); });
    helpers_.back().detach();
  }
}

void Pool::run(int items, int threads, Piece piece, void* context) {
  const int others = active_processes() - 1;
  if (threads > 1) threads = std::min(threads, std::max(1, usable_cores() / (1 + others)));
  last_threads_.store(threads, std::memory_order_relaxed);
  if (threads <= 1 || items < 2 || !use_.try_lock()) {
    piece(context, 0, items);
    return;
  }
  const std::lock_guard<std::mutex> lock(use_, std::adopt_lock);
  start_helpers(threads - 1);
  Job job{piece, context, items, threads - 1};
  job_ = &job;
  door_.fetch_or(kOpen, std::memory_order_acq_rel);
  newest_.fetch_add(1, std::memory_order_acq_rel);
  newest_.notify_all();
  work(job);
  door_.fetch_and(~kOpen, std::memory_order_acq_rel);
  while (door_.load(std::memory_order_acquire) != 0) pause_thread();
}

}  // namespace triton_ads
