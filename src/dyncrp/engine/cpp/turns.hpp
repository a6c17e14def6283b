// Threads: the interpreter's lock, interruptions, and whose turn it is to use a stream.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace dyncrp {

namespace nb = nanobind;

namespace {  // of the one module that includes it, which makes it faster

/// While Python ends, a thread that asks for the interpreter's lock is ended in the middle of C++: let it wait for the
/// end of the process instead.
inline void wait_for_the_end_if_near() {
#if PY_VERSION_HEX >= 0x030D0000
    while (Py_IsFinalizing() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
#else
    while (_Py_IsFinalizing() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
#endif
}

/// Does without the interpreter's lock.
class Unlocked {
  public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked() {
        wait_for_the_end_if_near();
        PyEval_RestoreThread(state_);
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

  private:
    PyThreadState* state_;
};

/// Run what Python has waiting, such as Ctrl-C; throws if that raised. The caller holds no lock of the interpreter.
inline void check_signals() {
    wait_for_the_end_if_near();
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// How many forks have led to this process. Of the threads of the process before only the one that forked is in it.
inline std::atomic<int>& forks() {
    static std::atomic<int> count = 0;
#ifndef _WIN32
    [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks(); });
#endif
    return count;
}

/// One learns, or several predict. Those who come meanwhile wait, without the interpreter's lock, and can be
/// interrupted while they do; two who learn at once would mix up the stream, and the second is refused. Whoever comes
/// to predict lets a learner that waits go first: others who predict without a break would keep it waiting for ever.
/// Whoever holds the stream in another thread while the process forks holds it for ever in the new one: those who come
/// there are refused.
class Turns {
  public:
    Turns() : forks_(forks().load()) {}

    /// Hold the stream for learning, or to change it in another way.
    class ToLearn {
      public:
        explicit ToLearn(Turns& turns) : turns_(turns) {
            if (turns_.predicting_here()) {
                throw std::runtime_error("this model is being asked in this thread, and cannot learn before that ends");
            }
            if (turns_.learning_.exchange(true)) {
                turns_.refuse_if_left_behind();
                throw std::runtime_error("this model is learning in another thread");
            }
            turns_.learner_waits_ = true;
            try {
                turns_.wait([&] { return turns_.mutex_.try_lock_for(PATIENCE); }, turns_.mutex_.try_lock());
            } catch (...) {
                turns_.learner_waits_ = turns_.learning_ = false;
                throw;
            }
            turns_.learner_waits_ = false;
            turns_.forks_.store(forks().load(), std::memory_order_relaxed);
            turns_.learner_ = std::this_thread::get_id();
        }
        ~ToLearn() {
            turns_.learner_ = std::thread::id();
            turns_.mutex_.unlock();
            turns_.learning_ = false;
        }
        ToLearn(const ToLearn&) = delete;
        ToLearn& operator=(const ToLearn&) = delete;

      private:
        Turns& turns_;
    };

    /// Hold the stream so that it does not change.
    class ToPredict {
      public:
        explicit ToPredict(Turns& turns) : turns_(turns) {
            // Only code that an interruption runs in the midst of learning can come here in the same thread.
            if (turns_.learner_ == std::this_thread::get_id()) {
                throw std::runtime_error("this model is learning, and cannot be asked before that ends");
            }
            // Whoever holds the stream already, such as code that an interruption runs in the midst of predicting, must
            // not wait for a learner that waits for it.
            if (!turns_.predicting_here()) {
                turns_.wait([&] { return turns_.try_to_judge(); },
                            !turns_.learner_waits_ && turns_.mutex_.try_lock_shared());
                turns_.forks_.store(forks().load(), std::memory_order_relaxed);
                locked_ = true;
            }
            predicting_in_this_thread().push_back(&turns_);
        }
        ~ToPredict() {
            predicting_in_this_thread().pop_back();
            if (locked_) turns_.mutex_.unlock_shared();
        }
        ToPredict(const ToPredict&) = delete;
        ToPredict& operator=(const ToPredict&) = delete;

      private:
        Turns& turns_;
        bool locked_ = false;
    };

  private:
    static constexpr std::chrono::milliseconds PATIENCE{50};

    template <class Try>
    void wait(Try try_again, bool had) const {
        while (!had) {
            refuse_if_left_behind();
            {
                const Unlocked unlocked;
                had = try_again();
            }
            if (!had && PyErr_CheckSignals() != 0) throw nb::python_error();
        }
    }

    /// Throw if the one who holds the stream took it before a fork, in a thread that this process does not have.
    void refuse_if_left_behind() const {
        if (forks_.load(std::memory_order_relaxed) != forks().load()) {
            throw std::runtime_error(
                "this process was forked while another thread used this model: load it from a file");
        }
    }

    static std::vector<const Turns*>& predicting_in_this_thread() {
        thread_local std::vector<const Turns*> predicted;
        return predicted;
    }

    bool predicting_here() const {
        const auto& predicted = predicting_in_this_thread();
        return std::find(predicted.begin(), predicted.end(), this) != predicted.end();
    }

    bool try_to_judge() {
        const auto end = std::chrono::steady_clock::now() + PATIENCE;
        while (learner_waits_) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        return mutex_.try_lock_shared_for(PATIENCE);
    }

    std::shared_timed_mutex mutex_;
    std::atomic<bool> learning_ = false;  // or waiting to learn,
    std::atomic<bool> learner_waits_ = false;
    std::atomic<int> forks_;  // when it was last taken
    std::atomic<std::thread::id> learner_;
};

}  // namespace
}  // namespace dyncrp
