// Threads for one kernel call. std::thread rather than OpenMP: a process that has run an OpenMP
// region may hang after fork(), and PySpark forks its Python workers.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace xmc {

// Calls body(item, worker) once for each item in [0, items). Items are handed out one at a time, in
// order, to `threads` workers: put the heavy ones first. Results must not depend on which worker
// runs an item. The first exception stops the hand-out and is thrown again here.
template <class Body>
void parallel_for(int64_t items, int threads, Body&& body) {
  if (threads > items) threads = (int)items;
  if (threads <= 1) {
    for (int64_t i = 0; i < items; ++i) body(i, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  auto work = [&](int worker) {
    try {
      for (int64_t i; (i = next.fetch_add(1)) < items;) body(i, worker);
    } catch (...) {
      std::lock_guard<std::mutex> hold(failure_lock);
      if (!failure) failure = std::current_exception();
      next = items;
    }
  };
  std::vector<std::thread> pool;
  pool.reserve((size_t)threads);
  try {
    for (int w = 1; w < threads; ++w) pool.emplace_back(work, w);
  } catch (const std::system_error&) {
    // The system gives no more threads: those there are do the work, with the same result.
  }
  work(0);
  for (auto& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace xmc
