// Counts of words: a multinomial with a Dirichlet prior over a vocabulary that grows; see families/multinomial.py.
//
// Apart from a factor that all tables have in common, the likelihood of a document of L words under table c is
//
//     G(n_c) Π_w (n_cw + β_w)_{x_w}/(β_w)_{x_w},   G(n) = Π_{i<L} (B + i)/(n + B + i),
//
// and that of a new table is 1. Words that the table does not have give a factor of 1. So an index from words to tables
// finds all differences between tables of one length. The sum of all weights, which the evidence and the
// responsibilities need, is Σ_n G(n) Σ_{n_c = n} N_c, plus more for the tables that share a word. Tables without a
// shared word that might be the most probable, or have a share to report, are found by bounds for chunks of tables.
#pragma once

#include "special.hpp"
#include "stream.hpp"
#include "words.hpp"

namespace dyncrp {

inline constexpr Index CHUNK = 64;  // tables that share a bound of their weights

class Multinomial final : public Stream {
  public:
    struct Settings {
        static constexpr const char* NAME = "Multinomial";
        double concentration = 0.0;
        double background = 0.0;  // 0: none

        void for_each(auto each) { each("concentration", concentration), each("background", background); }
    };

    Multinomial(const Settings& settings, std::vector<Mode> modes, const Rules& rules);

    Index n_features() const override { return -1; }  // any number
    Index stats_width() const override { return 0; }
    bool is_sparse() const override { return true; }

    Snapshot snapshot() const override;
    void restore(const Snapshot& given) override;
    Counts words_of(std::int64_t id) const override;
    Counts all_words() const override;

  private:
    /// A word of a document that some table has.
    struct Known {
        std::uint32_t number;
        double x, beta;
    };

    /// Scratch space for one document after the other; nothing in it outlives the call.
    struct Work : Scratch {
        std::vector<Known> known;
        std::vector<double> new_counts;
        std::vector<double> gain;          // by slot: Π_w (n_cw + β_w)_{x_w}/(β_w)_{x_w}, 1 where no word is shared,
        std::vector<std::uint32_t> power;  // times STEP to this power
        std::vector<Slot> shared;          // the slots whose gain is not 1
        std::vector<double> factor;        // by number of a length: G, or its logarithm
        std::vector<double> score;         // of those in `shared`, if in logarithms
        std::vector<double> readout;       // by mode: the real part of the frame's factor,
        std::vector<double> reach;         // by mode: the modulus of the frame's factor
        std::vector<std::pair<Slot, double>> found;  // tables that may be reported, and their weights
        std::vector<Index> scanned;                  // chunks that were searched
        bool every = false;                          // whether each table is weighed separately
        bool in_logs = false;  // whether weights are too far apart for floats, so that logarithms are used
        double shift = 0.0;    // then they are divided by exp(shift)
        bool has_powers = false;
        double best = 0.0;  // the largest weight of a table so far
        double length = 0.0;
        double log_new = 0.0;    // log likelihood under a new table
        double log_total = 0.0;  // log of the total weight before x
    };

    static constexpr double STEP = 1e150;
    static constexpr Index SUM_UP_EVERY = 4096;  // rows, so that rounding errors do not accumulate
    static constexpr Index ROWS_TO_PAUSE = 16;   // which are called a block
    static constexpr double SMALL = 16.0;        // counts up to this are scored by a product
    static constexpr double REPORTED = 0.01;

    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

    /// Weigh row i under all tables and a new one, and find its label and the responsibilities to report; changes
    /// nothing. If `all_shares` is not null, fill it with the responsibilities of all tables and a new one, (K + 1,).
    Outcome observe(const Rows& rows, Index i, const Seats& seats, Work& work, double* all_shares = nullptr) const;
    /// The words of row i, and its log likelihood under a new table.
    void take(const Rows& rows, Index i, Work& work) const;
    void find_gains(Work& work) const;
    void find_factors(Work& work, double log_fresh) const;
    /// The total weight of the tables, summed one by one or by lengths; those that may be reported are in work.found.
    double weigh_each(const Seats& seats, Work& work, double log_fresh) const;
    double weigh_by_lengths(const Seats& seats, Work& work, double log_fresh) const;
    double occupancy_in(Slot slot, const Seats& seats, const Work& work) const;
    double log_gain(Slot slot, const Work& work) const;
    double log_weight(double occupancy, Slot slot, const Work& work) const;
    /// Find tables without a shared word whose weight is large enough to be reported.
    void find_others(const Seats& seats, Work& work, double tables, double fresh) const;
    void assign(const Seats& seats, Work& work, double tables, double fresh, Outcome& outcome) const;

    Index learn_block(const Rows& rows, Index i, Record* record) override;
    std::pair<std::int64_t, double> judge_one(const Rows& row, const Seats& seats) override;
    void judge(const Rows& rows, const Seats& seats, const Prediction& prediction, bool predictive,
               const Pause& pause) const override;
    /// Whether each table must be weighed separately: its weight may be clipped, or is not that of `lengths_`.
    bool weighs_each(const Seats& seats) const { return rules_.clip || rules_.posterior || &seats != &seats_; }

    bool learn_row(const Rows& rows, Index i, Record* record);
    void update(const Rows& rows, Index i, Outcome& outcome);
    void close();
    void move_up();
    void sum_lengths();
    void refresh_peaks(Index chunk);
    /// Compute what follows from the states of the tables, slot by slot.
    void derive();
    void copy_real(Slot slot);
    Index n_chunks() const { return (static_cast<Index>(n_.size()) + CHUNK - 1) / CHUNK; }
    void fit(Work& work) const;

    Settings settings_;
    bool is_real_;  // whether all modes are
    Words words_;
    Lengths lengths_;
    std::vector<double> n_;                // by slot: the length of a table,
    std::vector<std::uint32_t> length_;    // its number, CLOSED if the table has closed,
    std::vector<std::int32_t> place_;      // and its place, −1 likewise
    std::vector<double> real_;             // the real parts of its mode states, if there are no others
    std::vector<Slot> slot_;               // by place
    std::vector<double> peak_, shortest_;  // by chunk of slots: the most |mode state| for each mode; the least n
    Work work_;
};

}  // namespace dyncrp
