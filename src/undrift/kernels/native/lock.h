// A lock that readers share and writers hold exclusively, for objects that several threads use.
//
// Compiled, because a streaming call takes less than a microsecond, and because a KeyboardInterrupt can strike between any
// two lines of Python: here a thread either holds the lock when `enter` returns, or never had it.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace undrift {
namespace nb = nanobind;

class Lock {
    using Thread = unsigned long;
    struct Hold {
        Thread who;
        size_t depth;
    };
    struct Waiter {
        bool exclusive;
    };

    std::mutex guard; // of everything below; held for a few instructions, never while Python runs
    std::condition_variable changed;
    std::vector<Hold> readers;  // threads that share the lock, and how often each entered
    Hold writer{0, 0};          // the thread that holds it exclusively; depth 0: nobody
    std::deque<Waiter *> queue; // threads that wait, in the order they came: nobody starves

    static Thread this_thread() { return PyThread_get_thread_ident(); }

    std::vector<Hold>::iterator reader(Thread who) {
        return std::find_if(readers.begin(), readers.end(), [&](const Hold &one) { return one.who == who; });
    }

    bool take(bool exclusive, Thread who) { // if nobody stands in the way
        if (writer.depth || (exclusive && !readers.empty())) return false;
        if (exclusive)
            writer = {who, 1};
        else
            readers.push_back({who, 1});
        return true;
    }

    bool enter_again(bool exclusive, Thread who) { // a thread that has the lock never waits for those who wait for it
        if (writer.depth && writer.who == who) return ++writer.depth;
        const auto own = reader(who);
        if (own == readers.end()) return false;
        if (exclusive)
            throw std::runtime_error("undrift: a model cannot learn, be saved or be copied by the thread that is reading it; "
                                     "do it after predict has returned");
        return ++own->depth;
    }

    void wait(bool exclusive, Thread who) {
        Waiter self{exclusive};
        {
            std::lock_guard<std::mutex> held(guard);
            queue.push_back(&self);
        }
        for (bool got = false; !got;) {
            {
                nb::gil_scoped_release unlocked; // outlives the guard: a thread never waits for Python while it holds it
                std::unique_lock<std::mutex> held(guard);
                got = changed.wait_for(held, std::chrono::milliseconds(50),
                                       [&] { return queue.front() == &self && take(exclusive, who); });
                if (got) leave_queue(self);
            }
            if (!got && PyErr_CheckSignals() != 0) {
                std::lock_guard<std::mutex> held(guard);
                leave_queue(self);
                throw nb::python_error();
            }
        }
    }

    void leave_queue(const Waiter &self) {
        queue.erase(std::find(queue.begin(), queue.end(), &self));
        changed.notify_all(); // the next one may share
    }

  public:
    void enter(bool exclusive) {
        const Thread who = this_thread();
        {
            std::lock_guard<std::mutex> held(guard);
            if (enter_again(exclusive, who) || (queue.empty() && take(exclusive, who))) return;
        }
        wait(exclusive, who);
    }

    void leave() {
        const Thread who = this_thread();
        std::lock_guard<std::mutex> held(guard);
        const auto own = reader(who);
        if (writer.depth && writer.who == who)
            --writer.depth;
        else if (own != readers.end() && --own->depth == 0)
            readers.erase(own);
        if (!queue.empty()) changed.notify_all();
    }
};

// The lock for as long as this object lives; nothing if there is none.
class LockGuard {
    Lock *lock;

  public:
    LockGuard(Lock *lock, bool exclusive) : lock(lock) {
        if (lock) lock->enter(exclusive);
    }
    ~LockGuard() {
        if (lock) lock->leave();
    }
    LockGuard(const LockGuard &) = delete;
    LockGuard &operator=(const LockGuard &) = delete;
};

} // namespace undrift
