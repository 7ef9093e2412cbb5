// Helper threads for products, made so that several server processes on one machine do not fight for its cores.
//
//   - The caller works too, and takes pieces until none is left. It waits only for helpers that have taken a piece:
//     a helper that the system does not run delays nobody.
//   - Before each job it counts the processes that are at work (active.h) and asks for no more helpers than the
//     cores that are left to it.
//   - A helper spins for 50 microseconds after a job, so that the layers of one decoding step find it awake, and
//     then sleeps. An idle pool costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace triton_ads {

using Piece = void (*)(void* context, int first, int last);

class Pool {
 public:
  static Pool& shared();

  // Calls piece(context, first, last) so that 0 to items - 1 are covered once, on at most `threads` threads. When
  // another thread of this process uses the pool, the caller does everything itself.
  void run(int items, int threads, Piece piece, void* context);

  // Threads of the last job that was offered to helpers, the caller included.
  int last_threads() const { return last_threads_.load(std::memory_order_relaxed); }

 private:
  struct Job {
    Piece piece;
    void* context;
    int items, helpers;
    std::atomic<int> next{0};
  };
  void help(int number);
  void start_helpers(int count);
  static void work(Job& job);

  std::mutex use_;
  std::vector<std::thread> helpers_;
  Job* job_ = nullptr;
  // The number of the newest job; helpers wait for it to change.
  std::atomic<uint32_t> newest_{0};
  // kOpen while a job may be joined, plus the number of helpers that look at it.
  std::atomic<uint32_t> door_{0};
  std::atomic<int> last_threads_{1};
};

// Cores that this process may use: its affinity, and its cgroup's CPU quota where there is one.
int usable_cores();

}  // namespace triton_ads
