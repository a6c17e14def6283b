#include "multinomial.hpp"

namespace dyncrp {

namespace {

/// log (a)_s = log Γ(a + s)/Γ(a).
double log_rising(double a, double s) {
    return (a - 0.5) * std::log1p(s / a) + s * (std::log(a + s) - 1.0) + stirling_remainder(a + s) -
           stirling_remainder(a);
}

double log_or_minus_infinity(double value) { return value > 0.0 ? std::log(value) : -INF; }

constexpr double LARGEST_COUNT = 2147483648.0;  // 2³¹, as in counts.py
constexpr double LARGEST_PLAIN = 1e60;          // alpha beyond this, or below its inverse, is left to logarithms
constexpr double LONGEST_PLAIN = 64.0;          // and so are longer documents
constexpr double SLACK = 1e-8;                  // of bounds: much more than rounding, and than TIE

}  // namespace

Multinomial::Multinomial(const Settings& settings, std::vector<Mode> modes, const Rules& rules)
    : Stream(modes, rules), settings_(settings),
      is_real_(std::all_of(modes.begin(), modes.end(),
                           [](const Mode& mode) { return mode.amplitude_imag == 0.0 && mode.rate_imag == 0.0; })),
      lengths_(seats_.n_modes()) {
    capacity_ = FIRST_CAPACITY;
    seats_.reserve(capacity_);
}

Index Multinomial::learn_block(const Rows& rows, Index i, Record* record) {
    const Index size = std::min(ROWS_TO_PAUSE, rows.n - i);
    Index m = 0;
    while (m < size && learn_row(rows, i + m, record)) ++m;
    return m;
}

std::pair<std::int64_t, double> Multinomial::judge_one(const Rows& row, const Seats& seats) {
    fit(work_);
    work_.forget_told();
    work_.every = weighs_each(seats);
    seats.look(*row.times, work_.frame);
    const Outcome outcome = observe(row, 0, seats, work_);
    return {seats.label_of(outcome.place), outcome.log_evidence};
}

void Multinomial::judge(const Rows& rows, const Seats& seats, const Prediction& prediction, bool,
                        const Pause& pause) const {
    Work work;
    fit(work);
    work.every = weighs_each(seats) || prediction.responsibilities != nullptr;
    Pauses pauses(pause);
    for (Index i = 0; i < rows.n; ++i) {
        seats.look(rows.times[i], work.frame);
        prediction.write(i, observe(rows, i, seats, work, prediction.shares(i, seats.n_tables)), seats);
        if (i % ROWS_TO_PAUSE == 0) pauses.look();
    }
}

Outcome Multinomial::observe(const Rows& rows, Index i, const Seats& seats, Work& work, double* all_shares) const {
    const Index K = seats.n_tables;
    Outcome outcome;
    work.found.clear();
    work.scanned.clear();
    work.best = 0.0;
    take(rows, i, work);

    double weights = 0.0, fresh = rules_.alpha;
    if (rules_.posterior) fresh *= seats.posterior(K);
    if (work.every) {
        for (Index c = 0; c < K; ++c) {
            const bool barred = std::binary_search(work.barred.begin(), work.barred.end(), c);
            double& weight = work.occupancy[at(c)];
            weight = barred ? 0.0 : seats.occupancy(c, work.frame);
            if (rules_.posterior && !barred) weight += rules_.alpha * seats.posterior(c);
            weights += weight;
        }
    } else {
        weights = seats.total_occupancy(work.frame);
    }
    work.log_total = std::log(weights + fresh);

    work.readout.clear();
    for (const Frame::Factor& factor : work.frame.factors) work.readout.push_back(factor.readout_real);
    find_gains(work);
    const double log_fresh = log_or_minus_infinity(fresh);
    find_factors(work, log_fresh);
    const double tables = work.every ? weigh_each(seats, work, log_fresh) : weigh_by_lengths(seats, work, log_fresh);
    if (work.in_logs) fresh = std::exp(log_fresh - work.shift);
    if (!work.every) find_others(seats, work, tables, fresh);
    for (const Slot slot : work.shared) {
        work.gain[slot] = 1.0;
        work.power[slot] = 0;
    }
    const double total = tables + fresh;
    if (!(total > 0.0) || total == INF)
        throw std::invalid_argument("a row must hold counts, as family.check returns it");
    outcome.log_evidence = work.log_new + work.shift + std::log(total) - work.log_total;
    assign(seats, work, tables, fresh, outcome);
    if (all_shares != nullptr) {
        for (Index c = 0; c < K; ++c) all_shares[c] = work.occupancy[at(c)] / total;
        all_shares[K] = fresh / total;
    }
    return outcome;
}

void Multinomial::take(const Rows& rows, Index i, Work& work) const {
    const Sparse& row = rows.sparse;
    const double B = settings_.concentration, s = settings_.background;
    const double n_known = static_cast<double>(words_.n_words());
    const double unit = s > 0.0 ? B / (words_.total() + s * (n_known + 1.0)) : B / (n_known + 1.0);
    const double unseen = s > 0.0 ? unit * s : unit;
    work.known.clear();
    work.new_counts.clear();
    work.length = 0.0;
    LogProduct product;
    double logs = 0.0;
    Index lane = 0;
    std::int64_t before = -1;
    for (std::int64_t j = row.indptr[i]; j < row.indptr[i + 1]; ++j) {
        const double x = row.data[j];
        // Whoever calls has checked the rows; but another thread may change them.
        if (row.columns[j] <= before || !(x >= 1.0 && x <= LARGEST_COUNT && std::floor(x) == x)) {
            throw std::invalid_argument("a row must hold counts in columns that count up");
        }
        before = row.columns[j];
        work.length += x;
        const std::uint32_t number = words_.find(before);
        if (number == Words::NONE) {
            work.new_counts.push_back(x);
            product.take(lane++, unseen / x);
            continue;
        }
        const double beta = s > 0.0 ? unit * (words_.word(number).total + s) : unit;
        work.known.push_back({number, x, beta});
        if (x <= SMALL) {
            for (double k = 0.0; k < x; k += 1.0) product.take(lane++, (beta + k) / (k + 1.0));
        } else {
            logs += log_rising(beta, x) - log_factorial(x);
        }
    }
    std::sort(work.new_counts.begin(), work.new_counts.end());
    for (std::size_t j = 0; j < work.new_counts.size();) {
        const std::size_t first = j;
        while (j < work.new_counts.size() && work.new_counts[j] == work.new_counts[first]) ++j;
        logs -= log_factorial(static_cast<double>(j - first));
    }
    const double L = work.length;
    if (L <= LONGEST_PLAIN) {
        for (double k = 0.0; k < L; k += 1.0) product.take(lane++, (k + 1.0) / (B + k));
    } else {
        logs += log_factorial(L) - log_rising(B, L);
    }
    work.log_new = logs + product.log();
}

void Multinomial::find_gains(Work& work) const {
    static const double LOG_STEP = std::log(STEP);
    work.shared.clear();
    work.has_powers = false;
    double* const gains = work.gain.data();
    const auto raise = [&](Slot slot, double gain, double factor) {
        gain *= factor;
        if (gain > 2.0 * STEP) {
            gain /= STEP;
            ++work.power[slot];
            work.has_powers = true;
        }
        return gain;
    };
    // Room for one more slot than there are, so that each can be written down before it is known to be new.
    work.shared.resize(n_.size() + 1);
    Slot* const shared = work.shared.data();
    std::size_t n_shared = 0;
    for (const Known& known : work.known) {
        const Words::Word& word = words_.word(known.number);
        const Slot* slots = word.slots.data();
        const double* counts = word.counts.data();
        const std::size_t n = word.slots.size();
        const double beta = known.beta, inverse = 1.0 / beta;
        if (known.x == 1.0) {  // nearly always
            for (std::size_t j = 0; j < n; ++j) {
                const Slot slot = slots[j];
                const double gain = gains[slot];
                shared[n_shared] = slot;
                n_shared += gain == 1.0 ? 1 : 0;
                gains[slot] = raise(slot, gain, 1.0 + counts[j] * inverse);
            }
            continue;
        }
        for (std::size_t j = 0; j < n; ++j) {
            const Slot slot = slots[j];
            double gain = gains[slot];
            shared[n_shared] = slot;
            n_shared += gain == 1.0 ? 1 : 0;
            if (known.x <= SMALL) {
                for (double k = 0.0; k < known.x; k += 1.0) gain = raise(slot, gain, 1.0 + counts[j] / (beta + k));
            } else {
                const double log_ratio = log_rising(beta + counts[j], known.x) - log_rising(beta, known.x);
                const double steps = std::floor(log_ratio / LOG_STEP);
                work.power[slot] += static_cast<std::uint32_t>(steps);
                work.has_powers = work.has_powers || steps > 0.0;
                gain = raise(slot, gain, std::exp(log_ratio - steps * LOG_STEP));
            }
            gains[slot] = gain;
        }
    }
    work.shared.resize(n_shared);
}

void Multinomial::find_factors(Work& work, double log_fresh) const {
    const double B = settings_.concentration, L = work.length;
    const std::vector<std::uint32_t>& order = lengths_.order();
    work.factor.resize(lengths_.n_numbers());
    work.shift = 0.0;
    work.in_logs = L > LONGEST_PLAIN || work.has_powers || std::abs(log_fresh) > std::log(LARGEST_PLAIN);
    if (!work.in_logs) {
        for (const std::uint32_t number : order) {
            const double n = lengths_.length(number);
            double factor = 1.0;
            for (double k = 0.0; k < L; k += 8.0) {  // with one division for eight factors
                const double end = std::min(L, k + 8.0);
                double above = 1.0, below = 1.0;
                for (double i = k; i < end; i += 1.0) {
                    above *= B + i;
                    below *= n + B + i;
                }
                factor *= above / below;
            }
            work.factor[number] = factor;
        }
    }
    // A factor that is too small for a float is as good as 0: gains without powers are below 1e151, and alpha is not.
    if (work.in_logs) {
        const double base = L > 0.0 ? log_rising(B, L) : 0.0;
        for (const std::uint32_t number : order) {
            work.factor[number] = L > 0.0 ? base - log_rising(lengths_.length(number) + B, L) : 0.0;
        }
    }
    work.factor[Lengths::CLOSED] = work.in_logs ? -INF : 0.0;
}

double Multinomial::log_gain(Slot slot, const Work& work) const {
    static const double LOG_STEP = std::log(STEP);
    const double gain = work.gain[slot];
    return gain == 1.0 ? 0.0 : std::log(gain) + LOG_STEP * static_cast<double>(work.power[slot]);
}

double Multinomial::log_weight(double occupancy, Slot slot, const Work& work) const {
    return log_or_minus_infinity(occupancy) + work.factor[length_[slot]] + log_gain(slot, work);
}

/// The occupancy of the table in a slot, unless it has closed.
double Multinomial::occupancy_in(Slot slot, const Seats& seats, const Work& work) const {
    if (place_[slot] < 0) return 0.0;
    if (!is_real_) return seats.occupancy(place_[slot], work.frame);
    const double* states = real_.data() + slot * at(seats.n_modes());
    const double* readout = work.readout.data();
    const double value = sum_of<double>(seats.n_modes(), [=](Index m) { return readout[m] * states[m]; });
    return value > NEGLIGIBLE ? value : 0.0;
}

double Multinomial::weigh_each(const Seats& seats, Work& work, double log_fresh) const {
    const Index K = seats.n_tables;
    double tables = 0.0;
    if (work.in_logs) {
        work.shift = log_fresh;
        for (Index c = 0; c < K; ++c) {
            work.occupancy[at(c)] = log_weight(work.occupancy[at(c)], slot_[at(c)], work);
            work.shift = std::max(work.shift, work.occupancy[at(c)]);
        }
    }
    for (Index c = 0; c < K; ++c) {
        const Slot slot = slot_[at(c)];
        double& weight = work.occupancy[at(c)];
        weight = work.in_logs ? std::exp(weight - work.shift) : weight * work.factor[length_[slot]] * work.gain[slot];
        tables += weight;
        work.best = std::max(work.best, weight);
    }
    const double bar = std::min(REPORTED * tables, work.best) * (1.0 - SLACK);
    for (Index c = 0; c < K; ++c) {
        if (work.occupancy[at(c)] >= bar) work.found.emplace_back(slot_[at(c)], work.occupancy[at(c)]);
    }
    return tables;
}

double Multinomial::weigh_by_lengths(const Seats& seats, Work& work, double log_fresh) const {
    // Of those that share no word, and of the others as if they did not.
    double tables = 0.0;
    const std::vector<std::uint32_t>& order = lengths_.order();
    if (work.in_logs) {
        work.shift = log_fresh;
        work.score.resize(work.shared.size());
        for (std::size_t j = 0; j < work.shared.size(); ++j) {
            const Slot slot = work.shared[j];
            work.score[j] = log_weight(occupancy_in(slot, seats, work), slot, work);
            work.shift = std::max(work.shift, work.score[j]);
        }
        for (const std::uint32_t number : order) {
            const double log_sum = log_or_minus_infinity(seats.occupancy_of(lengths_.sum(number), work.frame));
            work.shift = std::max(work.shift, log_sum + work.factor[number]);
        }
        for (const std::uint32_t number : order) {
            const double log_sum = log_or_minus_infinity(seats.occupancy_of(lengths_.sum(number), work.frame));
            tables += std::exp(log_sum + work.factor[number] - work.shift);
        }
    } else {
        for (const std::uint32_t number : order) {
            tables += seats.occupancy_of(lengths_.sum(number), work.frame) * work.factor[number];
        }
    }
    // What the shared words add. Few are worth a look later: those that may be the best, or have a share to report.
    const double fresh = work.in_logs ? std::exp(log_fresh - work.shift) : rules_.alpha;
    const auto note = [&](Slot slot, double weight) {
        if (weight >= std::min(REPORTED * tables, std::max(work.best, fresh)) * (1.0 - SLACK)) {
            work.found.emplace_back(slot, weight);
            work.best = std::max(work.best, weight);
        }
    };
    if (work.in_logs) {
        for (std::size_t j = 0; j < work.shared.size(); ++j) {
            const Slot slot = work.shared[j];
            const double weight = std::exp(work.score[j] - work.shift);
            tables += work.power[slot] > 0 ? weight : weight * (1.0 - 1.0 / work.gain[slot]);
            note(slot, weight);
        }
        return tables;
    }
    const auto add = [&](auto occupancy_in) {  // of a table that has closed, the factor is 0
        for (const Slot slot : work.shared) {
            const double without = occupancy_in(slot) * work.factor[length_[slot]], gain = work.gain[slot];
            tables += without * (gain - 1.0);
            note(slot, without * gain);
        }
    };
    if (is_real_ && seats.n_modes() == 1) {
        const double readout = work.frame.factors[0].readout_real;
        add([&](Slot slot) {
            const double value = readout * real_[slot];
            return value > NEGLIGIBLE ? value : 0.0;
        });
    } else {
        add([&](Slot slot) { return occupancy_in(slot, seats, work); });
    }
    return tables;
}

void Multinomial::find_others(const Seats& seats, Work& work, double tables, double fresh) const {
    const std::vector<std::uint32_t>& order = lengths_.order();
    if (order.empty()) return;
    const auto M = static_cast<std::size_t>(seats.n_modes());
    work.reach.resize(M);
    for (std::size_t m = 0; m < M; ++m) {
        work.reach[m] = std::hypot(work.frame.factors[m].readout_real, work.frame.factors[m].readout_imag);
    }
    const auto needed = [&](double bar, std::uint32_t number) {  // occupancy of a table of that length
        if (work.in_logs) return std::exp(std::log(bar) + work.shift - work.factor[number]);
        return bar / work.factor[number];
    };
    double bar = 0.0, least = 0.0;
    const auto set_bar = [&] {
        bar = std::min(REPORTED * tables, std::max(work.best, fresh)) * (1.0 - SLACK);
        least = needed(bar, order.front()) * (1.0 - SLACK);
    };
    set_bar();
    for (Index chunk = n_chunks() - 1; chunk >= 0; --chunk) {  // the newest first, which time has left most of
        const double* peaks = peak_.data() + at(chunk) * M;
        double reach = 0.0;
        for (std::size_t m = 0; m < M; ++m) reach += work.reach[m] * peaks[m];
        if (reach < least || reach == 0.0) continue;
        // No table of the chunk is shorter than `shortest`, and G falls with the length.
        const auto after =
            std::upper_bound(order.begin(), order.end(), shortest_[at(chunk)],
                             [&](double n, std::uint32_t number) { return n < lengths_.length(number); });
        const std::uint32_t number = after == order.begin() ? order.front() : *(after - 1);
        if (reach < needed(bar, number) * (1.0 - SLACK)) continue;
        work.scanned.push_back(chunk);
        const Index end = std::min((chunk + 1) * CHUNK, static_cast<Index>(n_.size()));
        for (Index at_slot = chunk * CHUNK; at_slot < end; ++at_slot) {
            const Slot slot = static_cast<Slot>(at_slot);
            if (place_[slot] < 0 || work.gain[slot] != 1.0) continue;
            const double occupancy = occupancy_in(slot, seats, work);
            const double weight = work.in_logs ? std::exp(log_weight(occupancy, slot, work) - work.shift)
                                               : occupancy * work.factor[length_[slot]];
            if (weight < bar) continue;
            work.found.emplace_back(slot, weight);
            work.best = std::max(work.best, weight);
        }
        set_bar();
    }
}

void Multinomial::assign(const Seats& seats, Work& work, double tables, double fresh, Outcome& outcome) const {
    const Index K = seats.n_tables;
    const double total = tables + fresh, best = work.best;
    const bool enough = fresh >= rules_.new_table_threshold * total * (1.0 - TIE) || fresh >= best * (1.0 - TIE);
    outcome.opened = K == 0 || enough;
    outcome.place = K;
    const double norm = outcome.opened ? total : tables;
    if (!outcome.opened) {
        for (const auto& [slot, weight] : work.found) {
            if (weight >= best * (1.0 - TIE)) outcome.place = std::min<Index>(outcome.place, place_[slot]);
        }
    }
    work.places.clear();
    work.responsibilities.clear();
    std::sort(work.found.begin(), work.found.end());  // by age
    for (const auto& [slot, weight] : work.found) {
        const Index place = place_[slot];
        if (weight < REPORTED * (1.0 - TIE) * norm && place != outcome.place) continue;
        work.places.push_back(place);
        work.responsibilities.push_back(weight / norm);
    }
    if (outcome.opened) {
        work.places.push_back(K);
        work.responsibilities.push_back(fresh / norm);
    }
}

bool Multinomial::learn_row(const Rows& rows, Index i, Record* record) {
    if (!work_.take_told(rows, i, seats_)) return false;
    if (seats_.advance(rows.times[i], work_.frame)) {
        sum_lengths();
        derive();
    }
    fit(work_);
    work_.every = weighs_each(seats_) || !work_.barred.empty();
    outcome_ = observe(rows, i, seats_, work_);
    work_.obey(outcome_, seats_.n_tables);
    if (work_.weight == 0.0) {
        work_.pass_by(outcome_, seats_);
    } else {
        update(rows, i, outcome_);
        fit(work_);
        seats_.find_closing(outcome_.place, outcome_.opened, rules_, work_.frame, work_.occupancy.data(),
                            work_.closing);
    }
    note(rows, i, work_, record);
    if (!work_.closing.empty()) close();
    return true;
}

void Multinomial::update(const Rows& rows, Index i, Outcome& outcome) {
    const double t = work_.frame.time;
    for (const Index chunk : work_.scanned) refresh_peaks(chunk);
    if (outcome.opened) {
        if (seats_.n_tables + 1 > capacity_) seats_.reserve(capacity_ *= 2);
        seats_.open(t);
        slot_.push_back(static_cast<Slot>(n_.size()));
        place_.push_back(static_cast<std::int32_t>(seats_.n_tables - 1));
        n_.push_back(0.0);
        length_.push_back(Lengths::CLOSED);
        if (is_real_) real_.resize(real_.size() + at(seats_.n_modes()), 0.0);
        if (n_chunks() > static_cast<Index>(shortest_.size())) {
            shortest_.push_back(INF);
            peak_.resize(peak_.size() + at(seats_.n_modes()), 0.0);
        }
    }
    const Slot slot = slot_[at(outcome.place)];
    const double* states = seats_.states(outcome.place);
    if (length_[slot] != Lengths::CLOSED) lengths_.leave(length_[slot], states);
    const Sparse& row = rows.sparse;
    const double weight = work_.weight;
    for (std::int64_t j = row.indptr[i]; j < row.indptr[i + 1]; ++j) {
        words_.add(slot, row.columns[j], weight * row.data[j]);
    }
    n_[slot] += weight * work_.length;
    seats_.seat(outcome.place, weight, work_.frame);
    seats_.seat_in_all(weight, work_.frame);
    length_[slot] = lengths_.enter(n_[slot], states);
    copy_real(slot);

    const Index chunk = static_cast<Index>(slot) / CHUNK;
    shortest_[at(chunk)] = std::min(shortest_[at(chunk)], n_[slot]);
    double* peaks = peak_.data() + at(chunk) * at(seats_.n_modes());
    for (Index m = 0; m < seats_.n_modes(); ++m) {
        peaks[m] = std::max(peaks[m], std::hypot(states[2 * m], states[2 * m + 1]));
    }
    if (rules_.posterior) {
        const Index place = outcome.place;
        const double whole = 1.0;
        seats_.update_posterior({&place, 1}, &whole);
    }
    outcome.absence = seats_.see(outcome.place, t, outcome.log_evidence);
    if (seats_.n_observations % SUM_UP_EVERY == 0) sum_lengths();
}

void Multinomial::close() {
    for (const Index c : work_.closing) {
        const Slot slot = slot_[at(c)];
        words_.close(slot);
        lengths_.leave(length_[slot], seats_.states(c));
        length_[slot] = Lengths::CLOSED;
        place_[slot] = -1;
    }
    remove_places(slot_.data(), 1, work_.closing, seats_.n_tables);
    seats_.close(work_.closing);
    seats_.remove_closed();
    slot_.resize(at(seats_.n_tables));
    for (Index c = 0; c < seats_.n_tables; ++c) place_[slot_[at(c)]] = static_cast<std::int32_t>(c);
    if (static_cast<Index>(n_.size()) > 2 * seats_.n_tables + CHUNK) move_up();
    sum_lengths();
}

/// Let the slots of tables be their places.
void Multinomial::move_up() {
    words_.renumber(place_, seats_.n_tables);
    for (Index c = 0; c < seats_.n_tables; ++c) {
        const Slot slot = slot_[at(c)];
        n_[at(c)] = n_[slot];
        length_[at(c)] = length_[slot];
        slot_[at(c)] = static_cast<Slot>(c);
        place_[at(c)] = static_cast<std::int32_t>(c);
    }
    length_.resize(at(seats_.n_tables));
    n_.resize(at(seats_.n_tables));
    place_.resize(at(seats_.n_tables));
    derive();
}

void Multinomial::copy_real(Slot slot) {
    if (!is_real_) return;
    const double* states = seats_.states(place_[slot]);
    double* to = real_.data() + slot * at(seats_.n_modes());
    for (Index m = 0; m < seats_.n_modes(); ++m) to[m] = states[2 * m];
}

void Multinomial::sum_lengths() {
    lengths_.sum_up([this](auto add) {
        for (Index c = 0; c < seats_.n_tables; ++c) add(length_[slot_[at(c)]], seats_.states(c));
    });
}

void Multinomial::refresh_peaks(Index chunk) {
    const Index M = seats_.n_modes();
    double* peaks = peak_.data() + at(chunk * M);
    std::fill_n(peaks, M, 0.0);
    shortest_[at(chunk)] = INF;
    const Index end = std::min((chunk + 1) * CHUNK, static_cast<Index>(n_.size()));
    for (Index slot = chunk * CHUNK; slot < end; ++slot) {
        if (place_[at(slot)] < 0) continue;
        shortest_[at(chunk)] = std::min(shortest_[at(chunk)], n_[at(slot)]);
        const double* states = seats_.states(place_[at(slot)]);
        for (Index m = 0; m < M; ++m) peaks[m] = std::max(peaks[m], std::hypot(states[2 * m], states[2 * m + 1]));
    }
}

void Multinomial::derive() {
    shortest_.assign(at(n_chunks()), INF);
    peak_.assign(at(n_chunks() * seats_.n_modes()), 0.0);
    for (Index chunk = 0; chunk < n_chunks(); ++chunk) refresh_peaks(chunk);
    if (is_real_) real_.resize(n_.size() * at(seats_.n_modes()));
    for (const Slot slot : slot_) copy_real(slot);
}

void Multinomial::fit(Work& work) const {
    work.gain.resize(n_.size(), 1.0);
    work.power.resize(n_.size(), 0);
    if (work.occupancy.size() < at(capacity_)) work.occupancy.resize(at(capacity_));
}

Snapshot Multinomial::snapshot() const {
    Snapshot taken;
    taken.take(seats_, rules_);
    const Index K = seats_.n_tables;
    const std::vector<std::uint32_t> numbers = words_.by_column();
    taken.words_indptr.assign(at(K + 1), 0);
    const auto each = [&](auto use) {
        for (const std::uint32_t number : numbers) {
            const Words::Word& word = words_.word(number);
            for (std::size_t j = 0; j < word.slots.size(); ++j) {
                const std::int32_t place = place_[word.slots[j]];
                if (place >= 0) use(static_cast<std::size_t>(place), word.column, word.counts[j]);
            }
        }
    };
    each([&](std::size_t place, std::int64_t, double) { ++taken.words_indptr[place + 1]; });
    for (Index c = 0; c < K; ++c) taken.words_indptr[at(c + 1)] += taken.words_indptr[at(c)];
    taken.words_indices.resize(static_cast<std::size_t>(taken.words_indptr.back()));
    taken.words_counts.resize(taken.words_indices.size());
    std::vector<std::int64_t> next = taken.words_indptr;
    each([&](std::size_t place, std::int64_t column, double count) {
        const auto to = static_cast<std::size_t>(next[place]++);
        taken.words_indices[to] = column;
        taken.words_counts[to] = count;
    });
    for (const std::uint32_t number : lengths_.order()) {
        const double* sum = lengths_.sum(number);
        taken.mode_sums.insert(taken.mode_sums.end(), sum, sum + 2 * seats_.n_modes());
    }
    return taken;
}

void Multinomial::restore(const Snapshot& given) {
    const Index K = given.n_tables, M = seats_.n_modes();
    capacity_ = std::max(FIRST_CAPACITY, 2 * K);
    seats_.reserve(capacity_);
    given.give(seats_);
    words_ = Words();
    lengths_.clear();
    n_.assign(at(K), 0.0);
    length_.resize(at(K));
    slot_.resize(at(K));
    place_.resize(at(K));
    for (Index c = 0; c < K; ++c) {
        slot_[at(c)] = static_cast<Slot>(c);
        place_[at(c)] = static_cast<std::int32_t>(c);
        for (std::int64_t j = given.words_indptr[at(c)]; j < given.words_indptr[at(c + 1)]; ++j) {
            words_.add(static_cast<Slot>(c), given.words_indices[at(j)], given.words_counts[at(j)]);
            n_[at(c)] += given.words_counts[at(j)];
        }
        length_[at(c)] = lengths_.enter(n_[at(c)], seats_.states(c));
    }
    sum_lengths();
    if (given.mode_sums.size() == lengths_.order().size() * at(2 * M)) {
        const double* from = given.mode_sums.data();
        for (const std::uint32_t number : lengths_.order()) {
            std::copy_n(from, 2 * M, lengths_.sum(number));
            from += 2 * M;
        }
    }
    derive();
    work_ = Work{};
}

Stream::Counts Multinomial::words_of(std::int64_t id) const {
    const Index place = seats_.place_of(id);
    if (place < 0) throw std::invalid_argument("there is no open table of this id");
    return words_.of(slot_[at(place)]);
}

Stream::Counts Multinomial::all_words() const {
    Counts found;
    for (const std::uint32_t number : words_.by_column()) {
        found.emplace_back(words_.word(number).column, words_.word(number).total);
    }
    return found;
}

}  // namespace dyncrp
