// The Python face of the loop: arrays in and out, the interpreter's lock, interruptions and threads.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <thread>

#include "columns.hpp"
#include "families.hpp"
#include "trials.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dyncrp {

void add_index(nb::module_& module);

namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using MaybeIntegers = std::optional<Integers>;

/// Sparse rows: indptr (n + 1,), columns and data.
using CountsArgument = std::tuple<Integers, Integers, Vector>;

/// Return a NumPy array that owns what was in the vector.
template <class T>
nb::object as_array(std::vector<T>&& values, std::initializer_list<std::size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
    nb::object array = nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
    // NumPy has two integers of 64 bits, and prints the one that is not its own with its type.
    return std::is_integral_v<T> ? array.attr("view")("i8") : array;
}

template <class T>
nb::object as_array(std::vector<T>&& values) {
    const std::size_t n = values.size();
    return as_array(std::move(values), {n});
}

/// Return a member, which is a vector, as an array of its own.
template <auto member, class Owner>
nb::object array_of(const Owner& owner) {
    auto copy = owner.*member;
    return as_array(std::move(copy));
}

template <class Array, class T = typename Array::Scalar>
std::vector<std::remove_const_t<T>> as_vector(const Array& array) {
    return {array.data(), array.data() + array.size()};
}

/// Settings in a dictionary of Python's.
class Dictionary final : public Source {
  public:
    explicit Dictionary(nb::dict values) : values_(std::move(values)) {}

    bool has(const char* name) const override { return values_.contains(name); }
    void read(const char* name, double& value) const override { value = nb::cast<double>(at(name)); }
    void read(const char* name, Index& value) const override { value = nb::cast<Index>(at(name)); }
    void read(const char* name, std::vector<double>& values) const override {
        values = as_vector(nb::cast<Vector>(at(name)));
    }
    void read(const char* name, std::vector<Index>& values) const override {
        values = nb::cast<std::vector<Index>>(at(name));
    }
    void look_into(const char* name, const std::function<void(const Source&)>& look) const override {
        const nb::object found = at(name);
        if (nb::isinstance<nb::dict>(found)) return look(Dictionary(nb::cast<nb::dict>(found)));
        for (const nb::handle one : found) look(Dictionary(nb::cast<nb::dict>(one)));
    }

  private:
    nb::object at(const char* name) const {
        if (!has(name)) throw std::invalid_argument(std::string("there is no setting '") + name + "'");
        return values_[name];
    }

    nb::dict values_;
};

Maker find_maker(const std::string& family, const nb::dict& settings, const nb::dict& coordinates) {
    const auto found = families().find(family);
    if (found == families().end()) throw std::invalid_argument("there is no family " + family);
    return found->second(Dictionary(settings), Dictionary(coordinates));
}

template <class... Kinds>
nb::tuple names_of_kinds(const std::variant<Kinds...>&) {
    return nb::make_tuple(Kinds::NAME...);
}

/// While Python ends, a thread that asks for the interpreter's lock is ended in the middle of C++: let it wait for the
/// end of the process instead.
void wait_for_the_end_if_near() {
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
void check_signals() {
    wait_for_the_end_if_near();
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// One learns, or several predict. Those who come meanwhile wait, without the interpreter's lock, and can be
/// interrupted while they do; two who learn at once would mix up the stream, and the second is refused. Whoever comes
/// to predict lets a learner that waits go first: others who predict without a break would keep it waiting for ever.
class Turns {
  public:
    /// Hold the stream for learning, or to change it in another way.
    class ToLearn {
      public:
        explicit ToLearn(Turns& turns) : turns_(turns) {
            if (turns_.predicting_here()) {
                throw std::runtime_error("this model is being asked in this thread, and cannot learn before that ends");
            }
            if (turns_.learning_.exchange(true)) throw std::runtime_error("this model is learning in another thread");
            turns_.learner_waits_ = true;
            try {
                wait([&] { return turns_.mutex_.try_lock_for(PATIENCE); }, turns_.mutex_.try_lock());
            } catch (...) {
                turns_.learner_waits_ = turns_.learning_ = false;
                throw;
            }
            turns_.learner_waits_ = false;
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
                wait([&] { return turns_.try_to_judge(); }, !turns_.learner_waits_ && turns_.mutex_.try_lock_shared());
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
    static void wait(Try try_again, bool had) {
        while (!had) {
            {
                const Unlocked unlocked;
                had = try_again();
            }
            if (!had && PyErr_CheckSignals() != 0) throw nb::python_error();
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
    std::atomic<std::thread::id> learner_;
};

/// What a call of learn did, row by row. It becomes arrays only when someone reads them, which takes longer than to
/// learn a row.
struct Learned {
    std::vector<std::int64_t> labels, indptr, indices, closed, closed_rows;
    std::vector<double> log_evidence, absences, data;
    Index n_columns = 0;

    explicit Learned(std::size_t n) : labels(n), indptr(n + 1), log_evidence(n), absences(n) {}

    Record begin() { return {labels.data(), log_evidence.data(), indptr.data(), absences.data(), {}, {}, {}, {}}; }

    /// Take over the record of n rows.
    void end(Record&& record, std::size_t n, Index n_opened) {
        labels.resize(n);
        log_evidence.resize(n);
        absences.resize(n);
        indptr.resize(n + 1);
        indices = std::move(record.indices);
        data = std::move(record.data);
        closed = std::move(record.closed);
        closed_rows = std::move(record.closed_rows);
        n_columns = n_opened;
    }
};

/// A stream and whose turn it is.
class Engine {
  public:
    /// safe_norm: a finite row that is no longer needs no further checks; −1: all rows need them.
    Engine(const std::string& family, const nb::dict& settings, const nb::dict& coordinates,
           const std::vector<Mode>& modes, const Rules& rules, double safe_norm)
        : stream_(find_maker(family, settings, coordinates)(modes, rules)),
          safe_square_(safe_norm > 0.0 ? safe_norm * safe_norm : -1.0) {}

    /// Whether this is a plain array of rows (n, D), or one row (D,), all of which are safe. One pass tells: a sum of
    /// squares that is small enough has no NaN in it.
    bool accepts(nb::handle given, std::size_t n_dimensions) const {
        Numbers x;
        if (safe_square_ < 0.0 || !is_plain_array(given) || !nb::try_cast(given, x, false)) return false;
        if (x.ndim() != n_dimensions || n_dimensions == 0 || x.size() == 0) return false;
        if (static_cast<Index>(x.shape(n_dimensions - 1)) != stream_->n_features()) return false;
        const double* at = x.data();
        const auto n = static_cast<Index>(x.size());
        const auto square = [=] { return sum_of<double>(n, [=](Index d) { return at[d] * at[d]; }); };
        if (x.size() < MANY_NUMBERS) return square() <= safe_square_;
        const Unlocked unlocked;
        return square() <= safe_square_;
    }

    void set_rules(const Rules& rules) {
        const Change change(*this);
        stream_->set_rules(rules);
    }

    void set_tuning(Index block, Index blunt_rows, Index index_from, bool keeps_index) {
        const Change change(*this);
        stream_->set_tuning({block, blunt_rows, index_from, keeps_index});
    }

    /// Learn rows; tables and marks are (n,), if anybody tells any.
    template <class Given>
    std::shared_ptr<Learned> learn(const Given& X, const Vector& times, const MaybeIntegers& tables,
                                   const MaybeIntegers& marks) {
        Rows rows = as_rows(X, times);
        for (const auto& [told, known] : {std::pair(&tables, &rows.tables), std::pair(&marks, &rows.marks)}) {
            if (!told->has_value()) continue;
            if ((*told)->size() != times.size()) throw std::invalid_argument("what is told must be of every row");
            *known = (*told)->data();
        }
        const auto learned = std::make_shared<Learned>(times.size());
        const Change change(*this);
        const Index before = stream_->seats().n_observations;
        Record record = learned->begin();
        const auto end = [&] {
            const Seats& seats = stream_->seats();
            learned->end(std::move(record), static_cast<std::size_t>(seats.n_observations - before), seats.n_opened);
            latest_ = learned;
        };
        try {
            const Unlocked unlocked;
            stream_->learn(rows, record, [this] {
                publish();
                check_signals();
            });
        } catch (...) {
            end();
            throw;
        }
        end();
        return learned;
    }

    /// Of the latest call of learn, as far as it came, if it was interrupted.
    nb::bytes latest_evidence() const {
        if (latest_ == nullptr) return nb::bytes("", 0);
        return nb::bytes(latest_->log_evidence.data(), latest_->log_evidence.size() * sizeof(double));
    }

    // So short that the interpreter's lock is kept, which makes the stream's own scratch space safe to use.
    std::pair<std::int64_t, double> run_one(const Vector& x, double t) {
        check_width(x.shape(0));
        const Change change(*this);
        return stream_->learn_one({x.data(), &t, 1});
    }

    std::pair<std::int64_t, double> predict_one(const Vector& x, double t) {
        check_width(x.shape(0));
        const Turns::ToPredict turn(turns_);
        return stream_->predict_one({x.data(), &t, 1});
    }

    std::pair<std::int64_t, double> run_one_sparse(const CountsArgument& counts, double t) {
        const Rows rows = as_rows(counts, &t, 1);
        const Change change(*this);
        return stream_->learn_one(rows);
    }

    std::pair<std::int64_t, double> predict_one_sparse(const CountsArgument& counts, double t) {
        const Rows rows = as_rows(counts, &t, 1);
        const Turns::ToPredict turn(turns_);
        return stream_->predict_one(rows);
    }

    template <class Given>
    nb::object predict(const Given& X, const Vector& times) {
        const Rows rows = as_rows(X, times);
        std::vector<std::int64_t> labels(times.size());
        ask(rows, false, [&](Index) { return Prediction{labels.data(), nullptr, nullptr}; });
        return as_array(std::move(labels));
    }

    template <class Given>
    nb::object log_density(const Given& X, const Vector& times) {
        const Rows rows = as_rows(X, times);
        std::vector<double> density(times.size());
        ask(rows, true, [&](Index) { return Prediction{nullptr, density.data(), nullptr}; });
        return as_array(std::move(density));
    }

    template <class Given>
    nb::object responsibilities(const Given& X, const Vector& times) {
        const Rows rows = as_rows(X, times);
        std::vector<double> responsibilities;
        std::size_t columns = 0;
        ask(rows, false, [&](Index n_tables) {
            columns = static_cast<std::size_t>(n_tables + 1);
            responsibilities.resize(times.size() * columns);
            return Prediction{nullptr, nullptr, responsibilities.data()};
        });
        return as_array(std::move(responsibilities), {times.size(), columns});
    }

    nb::dict snapshot() {
        Snapshot taken = [&] {
            const Turns::ToPredict turn(turns_);
            return stream_->snapshot();
        }();
        const auto K = static_cast<std::size_t>(taken.n_tables);
        const auto S = static_cast<std::size_t>(stream_->stats_width());
        const auto M = static_cast<std::size_t>(stream_->seats().n_modes());
        nb::dict arrays;
        if (stream_->is_sparse()) {
            arrays["words_indptr"] = as_array(std::move(taken.words_indptr));
            arrays["words_indices"] = as_array(std::move(taken.words_indices));
            arrays["words_counts"] = as_array(std::move(taken.words_counts));
            const std::size_t n_sums = taken.mode_sums.size() / (2 * M);
            arrays["mode_sums"] = as_array(std::move(taken.mode_sums), {n_sums, 2 * M});
        } else {
            arrays["stats"] = as_array(std::move(taken.stats), {K, S});
        }
        if (const char* extra = stream_->extra(); extra != nullptr) {
            arrays[extra] = as_array(std::move(taken.extra), {K, static_cast<std::size_t>(stream_->extra_width())});
        }
        arrays["mode_states"] = as_array(std::move(taken.mode_states), {K, 2 * M});
        arrays["mode_total"] = as_array(std::move(taken.mode_total));
        arrays["n_tables_posterior"] = as_array(std::move(taken.n_tables_posterior));
        arrays["table_ids"] = as_array(std::move(taken.table_ids));
        arrays["sizes"] = as_array(std::move(taken.sizes));
        arrays["first_times"] = as_array(std::move(taken.first_times));
        arrays["last_times"] = as_array(std::move(taken.last_times));
        if (!taken.taken.empty()) {
            arrays["mark"] = taken.mark;
            arrays["taken"] = as_array(std::move(taken.taken));
        }
        arrays["mode_time"] = taken.mode_time;
        arrays["time"] = taken.time;
        arrays["log_evidence"] = taken.log_evidence;
        arrays["n_opened"] = taken.n_opened;
        arrays["n_observations"] = taken.n_observations;
        return arrays;
    }

    /// The caller has seen to it that the arrays are of their shapes.
    void restore(const nb::dict& arrays) {
        Snapshot given;
        const auto numbers = [&](const char* name) {
            if (!arrays.contains(name)) return std::vector<double>();
            return as_vector(nb::cast<nb::ndarray<const double, nb::c_contig, nb::device::cpu>>(arrays[name]));
        };
        given.table_ids = as_vector(nb::cast<Integers>(arrays["table_ids"]));
        given.n_tables = static_cast<Index>(given.table_ids.size());
        given.sizes = as_vector(nb::cast<Integers>(arrays["sizes"]));
        given.first_times = numbers("first_times");
        given.last_times = numbers("last_times");
        if (arrays.contains("taken")) {
            given.mark = nb::cast<std::int64_t>(arrays["mark"]);
            given.taken = as_vector(nb::cast<Integers>(arrays["taken"]));
        }
        given.stats = numbers("stats");
        if (stream_->extra() != nullptr) given.extra = numbers(stream_->extra());
        given.mode_states = numbers("mode_states");
        given.mode_total = numbers("mode_total");
        given.n_tables_posterior = numbers("n_tables_posterior");
        given.mode_time = nb::cast<double>(arrays["mode_time"]);
        given.time = nb::cast<double>(arrays["time"]);
        given.log_evidence = nb::cast<double>(arrays["log_evidence"]);
        given.n_opened = nb::cast<Index>(arrays["n_opened"]);
        given.n_observations = nb::cast<Index>(arrays["n_observations"]);
        const Index K = given.n_tables, M = stream_->seats().n_modes();
        if (stream_->is_sparse()) {
            given.words_indptr = as_vector(nb::cast<Integers>(arrays["words_indptr"]));
            given.words_indices = as_vector(nb::cast<Integers>(arrays["words_indices"]));
            given.words_counts = numbers("words_counts");
            given.mode_sums = numbers("mode_sums");
            if (!is_csr(given.words_indptr, given.words_indices, given.words_counts.size(), given.n_tables)) {
                throw std::invalid_argument("its words are not rows of counts, one for each table");
            }
        }
        const auto has = [](const std::vector<double>& values, Index size) {
            return static_cast<Index>(values.size()) == size;
        };
        if (!has(given.stats, K * stream_->stats_width()) || !has(given.mode_states, 2 * M * K) ||
            !has(given.n_tables_posterior, K + 1) || given.sizes.size() != given.table_ids.size() ||
            !has(given.first_times, K) || !has(given.last_times, K) ||
            !(given.extra.empty() || has(given.extra, K * stream_->extra_width())) ||
            !(given.mode_total.empty() || has(given.mode_total, 2 * M))) {
            throw std::invalid_argument("its arrays are not those of a stream of this model");
        }
        const Change change(*this);
        stream_->restore(given);
    }

    nb::tuple words_of(std::int64_t id) {
        const Turns::ToPredict turn(turns_);
        return as_pair(stream_->words_of(id));
    }

    nb::tuple all_words() {
        const Turns::ToPredict turn(turns_);
        return as_pair(stream_->all_words());
    }

    nb::object ids() {
        std::vector<std::int64_t> ids;
        const Turns::ToPredict turn(turns_);
        for (Index c = 0; c < stream_->seats().n_tables; ++c) ids.push_back(stream_->seats().ids[c]);
        return as_array(std::move(ids));
    }

    nb::tuple compare(const Matrix& X) {
        const Turns::ToPredict turn(turns_);
        const auto n = X.shape(0), K = static_cast<std::size_t>(stream_->seats().n_tables);
        std::vector<double> screened(n * K), scores(n * K), slack(n);
        stream_->compare({X.data(), nullptr, static_cast<Index>(n)}, screened.data(), scores.data(), slack.data());
        return nb::make_tuple(as_array(std::move(screened), {n, K}), as_array(std::move(scores), {n, K}),
                              as_array(std::move(slack)));
    }

    // Single numbers never wait: while another thread learns, a progress bar may want them.
    Index n_tables() const { return published_.n_tables; }
    Index n_opened() const { return published_.n_opened; }
    Index n_observations() const { return published_.n_observations; }
    double time() const { return published_.time; }
    double log_evidence() const { return published_.log_evidence; }
    Index capacity() const { return stream_->capacity(); }
    bool is_indexed() const { return stream_->is_indexed(); }

  private:
    /// A turn to change the stream; its numbers are published when it ends, however it ends.
    class Change {
      public:
        explicit Change(Engine& engine) : turn_(engine.turns_), engine_(engine) {}
        ~Change() { engine_.publish(); }
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;

      private:
        Turns::ToLearn turn_;
        Engine& engine_;
    };

    void publish() {
        const Seats& seats = stream_->seats();
        published_.n_tables.store(seats.n_tables, std::memory_order_relaxed);
        published_.n_opened.store(seats.n_opened, std::memory_order_relaxed);
        published_.n_observations.store(seats.n_observations, std::memory_order_relaxed);
        published_.time.store(seats.time, std::memory_order_relaxed);
        published_.log_evidence.store(seats.log_evidence, std::memory_order_relaxed);
    }

    void check_width(std::size_t width) const {
        if (static_cast<Index>(width) != stream_->n_features()) {
            throw std::invalid_argument("a row has another number of features than the stream");
        }
    }

    Rows as_rows(const Matrix& X, const Vector& times) const {
        check_width(X.shape(1));
        if (X.shape(0) != times.shape(0)) throw std::invalid_argument("there must be a time for every row");
        return {X.data(), times.data(), static_cast<Index>(X.shape(0))};
    }

    /// Whether these are n rows of counts: as many entries as they say, each row's columns counting up from 0.
    static bool is_csr(std::span<const std::int64_t> indptr, std::span<const std::int64_t> columns, std::size_t n_data,
                       Index n) {
        if (static_cast<Index>(indptr.size()) != n + 1 || indptr.front() != 0 || columns.size() != n_data) return false;
        if (indptr.back() != static_cast<std::int64_t>(n_data)) return false;
        for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
            if (indptr[i] > indptr[i + 1] || indptr[i + 1] > indptr.back()) return false;
            for (std::int64_t j = indptr[i]; j < indptr[i + 1]; ++j) {
                const std::int64_t before = j == indptr[i] ? -1 : columns[static_cast<std::size_t>(j - 1)];
                if (columns[static_cast<std::size_t>(j)] <= before) return false;
            }
        }
        return true;
    }

    Rows as_rows(const CountsArgument& counts, const double* times, std::size_t n) const {
        const auto& [indptr, columns, data] = counts;
        if (!stream_->is_sparse() || indptr.size() != n + 1 ||
            !is_csr({indptr.data(), indptr.size()}, {columns.data(), columns.size()}, data.size(),
                    static_cast<Index>(n))) {
            throw std::invalid_argument("these are not rows of counts for this model, with a time for each");
        }
        Rows rows{nullptr, times, static_cast<Index>(n)};
        rows.sparse = {indptr.data(), columns.data(), data.data()};
        return rows;
    }

    Rows as_rows(const CountsArgument& counts, const Vector& times) const {
        return as_rows(counts, times.data(), times.size());
    }

    static bool is_plain_array(nb::handle given) {
        static PyObject* const plain = nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
        return reinterpret_cast<PyObject*>(Py_TYPE(given.ptr())) == plain;
    }

    static nb::tuple as_pair(const Stream::Counts& counts) {
        std::vector<std::int64_t> columns;
        std::vector<double> numbers;
        for (const auto& [column, number] : counts) {
            columns.push_back(column);
            numbers.push_back(number);
        }
        return nb::make_tuple(as_array(std::move(columns)), as_array(std::move(numbers)));
    }

    template <class Prepare>
    void ask(const Rows& rows, bool predictive, Prepare prepare) {
        const Turns::ToPredict turn(turns_);
        const Prediction prediction = prepare(stream_->seats().n_tables);
        const Unlocked unlocked;
        stream_->predict(rows, prediction, predictive, check_signals);
    }

    struct Published {
        std::atomic<Index> n_tables = 0, n_opened = 0, n_observations = 0;
        std::atomic<double> time = -INF, log_evidence = 0.0;
    };

    static constexpr std::size_t MANY_NUMBERS = 1 << 16;  // for other threads to wait

    StreamPointer stream_;
    double safe_square_;
    std::shared_ptr<const Learned> latest_;
    Turns turns_;
    Published published_;
};

/// A family in coordinates, from which streams are made that are tried on rows; see ``trials.hpp``.
class Recipe {
  public:
    Recipe(const std::string& family, const nb::dict& settings, const nb::dict& coordinates)
        : make_(find_maker(family, settings, coordinates)),
          n_features_(settings_from<Coordinates::Settings>(Dictionary(coordinates)).n_features) {}

    /// Let a new stream learn rows X (n, D) at times (n,). Returns the labels of the rows that it has learned, its log
    /// evidence and how many tables it has.
    nb::tuple try_out(const std::vector<Mode>& modes, const Rules& rules, const Matrix& X, const Vector& times,
                      Index most_tables, Index rows_per_look) const {
        if (X.shape(0) != times.shape(0)) throw std::invalid_argument("there must be a time for every row");
        const Rows rows = as_rows(X, times.data());
        const StreamPointer stream = make_(modes, rules);
        std::vector<std::int64_t> labels(times.size());
        {
            const Unlocked unlocked;
            const Patience patience{most_tables, std::max<Index>(1, rows_per_look)};
            const Index learned = dyncrp::try_out(*stream, rows, patience, labels.data(), check_signals);
            labels.resize(static_cast<std::size_t>(learned));
        }
        return nb::make_tuple(as_array(std::move(labels)), stream->seats().log_evidence, stream->seats().n_tables);
    }

    /// How well new streams reproduce the clusters of halves of rows, each (n, D), two after two.
    double reproducibility(const std::vector<Mode>& modes, const Rules& rules,
                           const std::vector<Matrix>& halves) const {
        std::vector<Rows> rows;
        for (const Matrix& half : halves) rows.push_back(as_rows(half, nullptr));
        const Unlocked unlocked;
        return dyncrp::reproducibility(rows, [&] { return make_(modes, rules); }, check_signals);
    }

  private:
    Rows as_rows(const Matrix& X, const double* times) const {
        if (static_cast<Index>(X.shape(1)) != n_features_) {
            throw std::invalid_argument("a row has another number of features than the stream");
        }
        return {X.data(), times, static_cast<Index>(X.shape(0))};
    }

    Maker make_;
    Index n_features_;
};

double adjusted_mutual_information(const Integers& left, const Integers& right) {
    if (left.size() != right.size() || left.size() == 0) throw std::invalid_argument("labels must be of the same rows");
    const Agreement agreement(static_cast<Index>(left.size()));
    return agreement({left.data(), left.size()}, {right.data(), right.size()});
}

/// Take sgemm from SciPy. The capsule's name is its signature in C, which must be the one we call it by.
void find_blas() {
    const nb::dict functions =
        nb::cast<nb::dict>(nb::module_::import_("scipy.linalg.cython_blas").attr("__pyx_capi__"));
    const nb::object capsule = functions["sgemm"];
    const char* signature = PyCapsule_GetName(capsule.ptr());
    if (signature == nullptr || std::string_view(signature).find("int *") == std::string_view::npos) {
        throw std::runtime_error("SciPy's sgemm does not take 32-bit integers");
    }
    sgemm = reinterpret_cast<Sgemm>(PyCapsule_GetPointer(capsule.ptr(), signature));
    if (sgemm == nullptr) throw nb::python_error();
}

}  // namespace
}  // namespace dyncrp

NB_MODULE(loop, module) {
    using namespace dyncrp;
    nb::set_leak_warnings(false);  // a model that lives until the interpreter ends is no leak
    find_blas();
    add_index(module);

    nb::class_<Mode>(module, "Mode")
        .def(
            "__init__",
            [](Mode* mode, std::pair<double, double> amplitude, std::pair<double, double> rate) {
                new (mode) Mode{amplitude.first, amplitude.second, rate.first, rate.second};
            },
            "amplitude"_a, "rate"_a);
    nb::class_<Rules>(module, "Rules")
        .def(
            "__init__",
            [](Rules* rules, double alpha, bool variational, bool posterior, Index n_iter, double new_table_threshold,
               Index max_tables, double prune_below, bool clip, double memory) {
                new (rules) Rules{alpha,      variational, posterior, n_iter, new_table_threshold,
                                  max_tables, prune_below, clip,      memory};
            },
            nb::kw_only(), "alpha"_a, "variational"_a, "posterior"_a, "n_iter"_a, "new_table_threshold"_a,
            "max_tables"_a, "prune_below"_a, "clip"_a, "memory"_a);
    module.attr("PARTS") = names_of_kinds(decltype(Columns::PartSettings::family){});

    nb::class_<Learned>(module, "Learned")
        .def_prop_ro("labels", array_of<&Learned::labels, Learned>)
        .def_prop_ro("log_evidence", array_of<&Learned::log_evidence, Learned>)
        .def_prop_ro("indptr", array_of<&Learned::indptr, Learned>)
        .def_prop_ro("indices", array_of<&Learned::indices, Learned>)
        .def_prop_ro("data", array_of<&Learned::data, Learned>)
        .def_ro("n_columns", &Learned::n_columns)
        .def_prop_ro("closed", array_of<&Learned::closed, Learned>)
        .def_prop_ro("closed_rows", array_of<&Learned::closed_rows, Learned>)
        .def_prop_ro("absences", array_of<&Learned::absences, Learned>);

    nb::class_<Engine>(module, "Engine")
        .def(nb::init<const std::string&, const nb::dict&, const nb::dict&, const std::vector<Mode>&, const Rules&,
                      double>(),
             "family"_a, "settings"_a, "coordinates"_a, "modes"_a, "rules"_a, "safe_norm"_a = -1.0)
        .def("accepts", &Engine::accepts, "X"_a.none(), "n_dimensions"_a)
        .def("_set_rules", &Engine::set_rules, "rules"_a)
        .def("_tune", &Engine::set_tuning, nb::kw_only(), "block"_a = 0, "blunt_rows"_a = 256, "index_from"_a = 4096,
             "keeps_index"_a = false)
        .def_prop_ro("_is_indexed", &Engine::is_indexed)
        .def("_learn", &Engine::learn<Matrix>, "X"_a, "times"_a, "tables"_a = nb::none(), "marks"_a = nb::none())
        .def("run_one", &Engine::run_one, "x"_a, "t"_a)
        .def("predict_one", &Engine::predict_one, "x"_a, "t"_a)
        .def("predict", &Engine::predict<Matrix>, "X"_a, "times"_a)
        .def("responsibilities", &Engine::responsibilities<Matrix>, "X"_a, "times"_a)
        .def("log_density", &Engine::log_density<Matrix>, "X"_a, "times"_a)
        .def("_learn_sparse", &Engine::learn<CountsArgument>, "counts"_a, "times"_a, "tables"_a = nb::none(),
             "marks"_a = nb::none())
        .def("_run_one_sparse", &Engine::run_one_sparse, "counts"_a, "t"_a)
        .def("_predict_one_sparse", &Engine::predict_one_sparse, "counts"_a, "t"_a)
        .def("_predict_sparse", &Engine::predict<CountsArgument>, "counts"_a, "times"_a)
        .def("_responsibilities_sparse", &Engine::responsibilities<CountsArgument>, "counts"_a, "times"_a)
        .def("_log_density_sparse", &Engine::log_density<CountsArgument>, "counts"_a, "times"_a)
        .def("_words_of", &Engine::words_of, "id"_a)
        .def("_all_words", &Engine::all_words)
        .def("_snapshot", &Engine::snapshot)
        .def("_restore", &Engine::restore, "arrays"_a)
        .def("_compare", &Engine::compare, "X"_a)
        .def_prop_ro("ids", &Engine::ids)
        .def_prop_ro("n_tables", &Engine::n_tables)
        .def_prop_ro("n_opened", &Engine::n_opened)
        .def_prop_ro("n_observations", &Engine::n_observations)
        .def_prop_ro("time", &Engine::time)
        .def_prop_ro("log_evidence", &Engine::log_evidence)
        .def_prop_ro("latest_evidence", &Engine::latest_evidence)
        .def_prop_ro("_capacity", &Engine::capacity);

    nb::class_<Recipe>(module, "Recipe")
        .def(nb::init<const std::string&, const nb::dict&, const nb::dict&>(), "family"_a, "settings"_a,
             "coordinates"_a)
        .def("try_out", &Recipe::try_out, "modes"_a, "rules"_a, "X"_a, "times"_a, nb::kw_only(), "most_tables"_a,
             "rows_per_look"_a)
        .def("reproducibility", &Recipe::reproducibility, "modes"_a, "rules"_a, "halves"_a);

    module.def("adjusted_mutual_information", &adjusted_mutual_information, "left"_a, "right"_a);

    module.def("digamma", &digamma, "x"_a);
    module.def("log_gamma_half", &log_gamma_half, "z"_a);
    module.def("stirling_remainder", &stirling_remainder, "z"_a);
    module.def("log_factorial", &log_factorial, "x"_a);
    module.def("log_negative_binomial", &log_negative_binomial, "x"_a, "A"_a, "B"_a);
    module.def(
        "bessel_excess",
        [](const nb::dict& at, double kappa) {
            return Bessel(settings_from<Bessel::Settings>(Dictionary(at))).excess(kappa);
        },
        "settings"_a, "kappa"_a);
    module.def(
        "bessel_ratio",
        [](const nb::dict& at, double kappa) {
            return Bessel(settings_from<Bessel::Settings>(Dictionary(at))).ratio(kappa);
        },
        "settings"_a, "kappa"_a);
}
