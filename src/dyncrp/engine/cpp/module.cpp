// The Python face of the loop: arrays in and out.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <variant>

#include "columns.hpp"
#include "families.hpp"
#include "trials.hpp"
#include "turns.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dyncrp {

void add_index(nb::module_& module);
void add_components(nb::module_& module);
void add_bins(nb::module_& module);
void add_windows(nb::module_& module);

namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using MaybeIntegers = std::optional<Integers>;

/// Return a NumPy array that owns what was in the vector.
template <class T>
nb::object as_array(std::vector<T>&& values, const std::vector<std::size_t>& shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
    nb::object array = nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
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

/// Whether these are n rows of counts: as many entries as they say, each row's columns counting up from 0.
bool is_csr(std::span<const std::int64_t> indptr, std::span<const std::int64_t> columns, std::size_t n_data,
            std::size_t n) {
    if (indptr.size() != n + 1 || indptr.front() != 0 || columns.size() != n_data) return false;
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

/// Rows as Python has them, for a stream: an array (n, D), or (D,) of a single row; or Counts, whose arrays are `csr`.
/// It keeps what `rows` points to.
class Given {
  public:
    Given(const Stream& stream, nb::handle X, const Vector& times) : Given(stream, X, times.data(), times.size(), 2) {}
    Given(const Stream& stream, nb::handle x, const double* t) : Given(stream, x, t, 1, 1) {}
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;

    Rows rows;

  private:
    Given(const Stream& stream, nb::handle X, const double* times, std::size_t n, std::size_t n_dimensions)
        : rows{nullptr, times, static_cast<Index>(n)} {
        if (stream.is_sparse()) {
            words_ = std::make_unique<Words>();
            if (const nb::object csr = nb::getattr(X, "csr", nb::none()); !csr.is_none()) {
                take_counts(csr, n);
                return;
            }
        }
        if (!nb::try_cast(X, array_) || array_.ndim() != n_dimensions) {
            throw nb::type_error("rows must be an array (n, D) of numbers, a single row (D,), or counts for words");
        }
        if (n_dimensions == 2 && array_.shape(0) != n) {
            throw std::invalid_argument("there must be a time for every row");
        }
        rows.x = array_.data();
        const auto D = static_cast<Index>(array_.shape(n_dimensions - 1));
        if (words_ != nullptr) {
            take_nonzero(rows.x, rows.n, D);
        } else if (D != stream.n_features()) {
            throw std::invalid_argument("a row has another number of features than the stream");
        }
    }

    void take_counts(const nb::object& csr, std::size_t n) {
        words_->csr = nb::cast<std::tuple<Integers, Integers, Vector>>(csr);
        const auto& [indptr, columns, data] = words_->csr;
        if (!is_csr({indptr.data(), indptr.size()}, {columns.data(), columns.size()}, data.size(), n)) {
            throw std::invalid_argument("these are not rows of counts, with a time for each");
        }
        rows.sparse = {indptr.data(), columns.data(), data.data()};
    }

    void take_nonzero(const double* x, Index n, Index D) {
        auto& [csr, indptr, columns, data] = *words_;
        indptr.push_back(0);
        for (Index i = 0; i < n; ++i, x += D) {
            for (Index d = 0; d < D; ++d) {
                if (x[d] == 0.0) continue;
                columns.push_back(d);
                data.push_back(x[d]);
            }
            indptr.push_back(static_cast<std::int64_t>(data.size()));
        }
        rows.sparse = {indptr.data(), columns.data(), data.data()};
    }

    /// Sparse rows, as they were given or found in an array.
    struct Words {
        std::tuple<Integers, Integers, Vector> csr;
        std::vector<std::int64_t> indptr, columns;
        std::vector<double> data;
    };

    Numbers array_;
    std::unique_ptr<Words> words_;
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
        return accepts_as(given, n_dimensions, x);
    }

    bool accepts_as(nb::handle given, std::size_t n_dimensions, Numbers& x) const {
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

    /// Learn rows; tables, marks and weights are (n,), if anybody tells any.
    std::shared_ptr<Learned> learn(nb::handle X, const Vector& times, const MaybeIntegers& tables,
                                   const MaybeIntegers& marks, const std::optional<Vector>& weights) {
        Given given(*stream_, X, times);
        Rows& rows = given.rows;
        for (const auto& [told, known] : {std::pair(&tables, &rows.tables), std::pair(&marks, &rows.marks)}) {
            if (!told->has_value()) continue;
            if ((*told)->size() != times.size()) throw std::invalid_argument("what is told must be of every row");
            *known = (*told)->data();
        }
        if (weights.has_value()) {
            if (weights->size() != times.size()) throw std::invalid_argument("there must be a weight for every row");
            rows.weights = weights->data();
        }
        const auto learned = std::make_shared<Learned>(times.size());
        const Change change(*this);
        const Index before = stream_->seats().n_observations;
        Record record = learned->begin();
        const auto end = [&] {
            const Seats& seats = stream_->seats();
            learned->end(std::move(record), static_cast<std::size_t>(seats.n_observations - before), seats.n_opened);
            latest_ = learned;
            latest_is_one_ = false;
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
    std::shared_ptr<const Learned> latest() const { return latest_; }

    /// Of the rows that came latest, in a call of learn or as a single one.
    nb::bytes latest_evidence() const {
        if (latest_is_one_) return nb::bytes(&latest_one_, sizeof(double));
        if (latest_ == nullptr) return nb::bytes("", 0);
        return nb::bytes(latest_->log_evidence.data(), latest_->log_evidence.size() * sizeof(double));
    }

    // So short that the interpreter's lock is kept, which makes the stream's own scratch space safe to use.
    std::pair<std::int64_t, double> run_one(const Vector& x, double t) { return learn_one(as_row(x, &t)); }

    /// The same for a row of which nothing is known, at time t, or the index of arrival if that is None. Returns None
    /// if it must be checked first: this is ``accepts`` and ``run_one`` in one call, which takes less time than two.
    nb::object run_safe_one(nb::handle given, nb::handle t) {
        Numbers x;
        if (!accepts_as(given, 1, x)) return nb::none();
        const double time = t.is_none() ? static_cast<double>(n_observations()) : PyFloat_AsDouble(t.ptr());
        const auto [label, log_evidence] = learn_one({x.data(), &time, 1});
        return nb::make_tuple(label, log_evidence);
    }

    std::pair<std::int64_t, double> predict_one(const Vector& x, double t) { return judge_one(as_row(x, &t)); }
    std::pair<std::int64_t, double> run_one_of_words(nb::handle x, double t) {
        return learn_one(Given(*stream_, x, &t).rows);
    }
    std::pair<std::int64_t, double> predict_one_of_words(nb::handle x, double t) {
        return judge_one(Given(*stream_, x, &t).rows);
    }

    nb::object predict(nb::handle X, const Vector& times) {
        std::vector<std::int64_t> labels(times.size());
        ask(X, times, false, [&](Index) { return Prediction{labels.data(), nullptr, nullptr}; });
        return as_array(std::move(labels));
    }

    nb::object log_density(nb::handle X, const Vector& times) {
        std::vector<double> density(times.size());
        ask(X, times, true, [&](Index) { return Prediction{nullptr, density.data(), nullptr}; });
        return as_array(std::move(density));
    }

    nb::object responsibilities(nb::handle X, const Vector& times) {
        std::vector<double> responsibilities;
        std::size_t columns = 0;
        ask(X, times, false, [&](Index n_tables) {
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
        nb::dict arrays;
        for_each_array(taken, [&](const char* name, auto& values, const Shape& shape) {
            arrays[name] = as_array(std::move(values), shape);
        });
        if (!taken.taken.empty()) {
            arrays["mark"] = taken.mark;
            arrays["taken"] = as_array(std::move(taken.taken));
        }
        for_each_number(taken, [&](const char* name, auto value) { arrays[name] = value; });
        return arrays;
    }

    /// The caller has seen to it that the arrays are of their shapes; those that may be missing are empty then.
    void restore(const nb::dict& arrays) {
        Snapshot given;
        const auto read = [&]<class T>(const char* name, std::vector<T>& values) {
            if (!arrays.contains(name)) return;
            values = as_vector(nb::cast<nb::ndarray<const T, nb::c_contig, nb::device::cpu>>(arrays[name]));
        };
        read("table_ids", given.table_ids);
        given.n_tables = static_cast<Index>(given.table_ids.size());
        for_each_array(given, [&](const char* name, auto& values, const Shape&) { read(name, values); });
        for_each_array(given, [&](const char* name, auto& values, const Shape& shape) {
            const std::size_t size = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
            const bool may_lack = &values == static_cast<void*>(&given.extra) || name == std::string_view("mode_total");
            if (values.size() == size || (may_lack && values.empty())) return;
            throw std::invalid_argument("its arrays are not those of a stream of this model");
        });
        for_each_number(given, [&]<class T>(const char* name, T& value) { value = nb::cast<T>(arrays[name]); });
        if (arrays.contains("taken")) {
            given.mark = nb::cast<std::int64_t>(arrays["mark"]);
            read("taken", given.taken);
        }
        if (stream_->is_sparse() && !is_csr(given.words_indptr, given.words_indices, given.words_counts.size(),
                                            static_cast<std::size_t>(given.n_tables))) {
            throw std::invalid_argument("its words are not rows of counts, one for each table");
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

    using Shape = std::vector<std::size_t>;

    /// Call each(name, values, shape) for the arrays of a snapshot.
    template <class Each>
    void for_each_array(Snapshot& of, Each each) const {
        const auto K = static_cast<std::size_t>(of.n_tables), M = static_cast<std::size_t>(stream_->seats().n_modes());
        if (stream_->is_sparse()) {
            each("words_indptr", of.words_indptr, {K + 1});
            each("words_indices", of.words_indices, {of.words_indices.size()});
            each("words_counts", of.words_counts, {of.words_counts.size()});
            each("mode_sums", of.mode_sums, {of.mode_sums.size() / (2 * M), 2 * M});
        } else {
            each("stats", of.stats, {K, static_cast<std::size_t>(stream_->stats_width())});
        }
        if (const char* extra = stream_->extra(); extra != nullptr) {
            each(extra, of.extra, {K, static_cast<std::size_t>(stream_->extra_width())});
        }
        each("mode_states", of.mode_states, {K, 2 * M});
        each("mode_total", of.mode_total, {2 * M});
        each("n_tables_posterior", of.n_tables_posterior, {K + 1});
        each("table_ids", of.table_ids, {K});
        each("sizes", of.sizes, {K});
        each("first_times", of.first_times, {K});
        each("last_times", of.last_times, {K});
    }

    template <class Each>
    static void for_each_number(Snapshot& of, Each each) {
        each("mode_time", of.mode_time), each("time", of.time), each("log_evidence", of.log_evidence);
        each("n_opened", of.n_opened), each("n_observations", of.n_observations);
    }

    Rows as_row(const Vector& x, const double* t) const {
        if (static_cast<Index>(x.shape(0)) != stream_->n_features()) {
            throw std::invalid_argument("a row has another number of features than the stream");
        }
        return {x.data(), t, 1};
    }

    std::pair<std::int64_t, double> learn_one(const Rows& row) {
        const Change change(*this);
        const auto done = stream_->learn_one(row);
        latest_one_ = done.second;
        latest_is_one_ = true;
        return done;
    }

    std::pair<std::int64_t, double> judge_one(const Rows& row) {
        const Turns::ToPredict turn(turns_);
        return stream_->predict_one(row);
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
    void ask(nb::handle X, const Vector& times, bool predictive, Prepare prepare) {
        const Given given(*stream_, X, times);
        const Turns::ToPredict turn(turns_);
        const Prediction prediction = prepare(stream_->seats().n_tables);
        const Unlocked unlocked;
        stream_->predict(given.rows, prediction, predictive, check_signals);
    }

    struct Published {
        std::atomic<Index> n_tables = 0, n_opened = 0, n_observations = 0;
        std::atomic<double> time = -INF, log_evidence = 0.0;
    };

    static constexpr std::size_t MANY_NUMBERS = 1 << 16;  // for other threads to wait

    StreamPointer stream_;
    double safe_square_;
    std::shared_ptr<const Learned> latest_;
    double latest_one_ = 0.0;
    bool latest_is_one_ = false;
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
    add_components(module);
    add_bins(module);
    add_windows(module);

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
        .def("_learn", &Engine::learn, "X"_a, "times"_a, "tables"_a = nb::none(), "marks"_a = nb::none(),
             "weights"_a = nb::none())
        .def("run_one", &Engine::run_one, "x"_a, "t"_a)
        .def("run_safe_one", &Engine::run_safe_one, "x"_a.none(), "t"_a.none())
        .def("predict_one", &Engine::predict_one, "x"_a, "t"_a)
        .def("_run_one_of_words", &Engine::run_one_of_words, "x"_a, "t"_a)
        .def("_predict_one_of_words", &Engine::predict_one_of_words, "x"_a, "t"_a)
        .def("predict", &Engine::predict, "X"_a, "times"_a)
        .def("responsibilities", &Engine::responsibilities, "X"_a, "times"_a)
        .def("log_density", &Engine::log_density, "X"_a, "times"_a)
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
        .def_prop_ro("_latest", &Engine::latest)
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
