// Working memory that calls borrow: each has its own, on whichever thread, and none is made anew while one is free.
#pragma once
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace xmc {

template <class Scratch>
class ScratchPool {
 public:
  class Loan {
   public:
    Loan(ScratchPool& pool, std::unique_ptr<Scratch> lent) : pool_(pool), lent_(std::move(lent)) {}
    // What an exception left behind is in no state to be lent again.
    ~Loan() {
      if (!lent_ || std::uncaught_exceptions() > before_) return;
      std::lock_guard<std::mutex> hold(pool_.lock_);
      pool_.free_.push_back(std::move(lent_));
    }
    Scratch& operator*() const { return *lent_; }

   private:
    ScratchPool& pool_;
    std::unique_ptr<Scratch> lent_;
    int before_ = std::uncaught_exceptions();
  };

  Loan take() {
    std::lock_guard<std::mutex> hold(lock_);
    if (free_.empty()) return Loan(*this, std::make_unique<Scratch>());
    std::unique_ptr<Scratch> lent = std::move(free_.back());
    free_.pop_back();
    return Loan(*this, std::move(lent));
  }

 private:
  std::mutex lock_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace xmc
