// Special functions one number at a time: the algorithms of dyncrp/families/bessel.py, gamma.py and poisson.py.
#pragma once

#include "numbers.hpp"

namespace dyncrp {

/// Return ψ(x) for x > 0: up by ψ(x) = ψ(x+1) − 1/x to x ≥ 10, then the asymptotic series; NaN for others.
inline double digamma(double x) {
    if (!(x > 0.0)) return std::numeric_limits<double>::quiet_NaN();  // instead of an endless climb from far below 0
    double shift = 0.0;
    while (x < 10.0) {
        shift -= 1.0 / x;
        x += 1.0;
    }
    const double y = 1.0 / (x * x);
    double series = 691.0 / 32760.0 - y / 12.0;
    for (const double denominator : {132.0, 240.0, 252.0, 120.0, 12.0}) series = 1.0 / denominator - y * series;
    return shift + std::log(x) - 0.5 / x - y * series;
}

/// Return log x, or ψ(x) for variational.
inline double log_or_digamma(double x, bool variational) { return variational ? digamma(x) : std::log(x); }

inline constexpr int GAMMA_SHIFT = 10;  // from here on the asymptotic series is exact

/// Return log Γ(z + ½) − log Γ(z) − ½ log z for z ≥ GAMMA_SHIFT.
inline double log_gamma_half_series(double z) {
    constexpr double SERIES[] = {-1.0 / 8, 1.0 / 192, -1.0 / 640, 17.0 / 14336, -31.0 / 18432, 691.0 / 180224};
    const double y = 1.0 / (z * z);
    double series = 0.0;
    for (int k = 5; k >= 0; --k) series = series * y + SERIES[k];
    return series / z;
}

/// Return log Γ(z + ½) − log Γ(z) − ½ log z for z > 0: up to z + 10, then the asymptotic series.
inline double log_gamma_half(double z) {
    double rise = 1.0;
    for (int j = 0; j < GAMMA_SHIFT; ++j) rise *= 1.0 + 0.5 / (z + j);
    return log_gamma_half_series(z + GAMMA_SHIFT) + 0.5 * std::log1p(GAMMA_SHIFT / z) - std::log(rise);
}

inline constexpr double LOG_2PI = 1.8378770664093454836;

/// Return log Γ(z) − (z − ½) log z + z − ½ log 2π for z > 0: from z + 10 down, or the asymptotic series.
inline double stirling_remainder(double z) {
    constexpr int SHIFT = 10;
    constexpr double SERIES[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360};
    const double top = z < SHIFT ? z + SHIFT : z;
    double series = 0.0;
    for (int k = 5; k >= 0; --k) series = series / (top * top) + SERIES[k];
    series /= top;
    if (!(z < SHIFT)) return series;
    double rise = z;
    for (int j = 1; j < SHIFT; ++j) rise *= z + j;
    return series + (top - 0.5) * std::log(top) - SHIFT - std::log(rise) - (z - 0.5) * std::log(z);
}

/// Return log x! for x ≥ 0, from a list while x is a small integer.
inline double log_factorial(double x) {
    constexpr int LISTED = 256;
    static const std::vector<double> list = [] {
        std::vector<double> logs{0.0};
        for (int i = 1; i < LISTED; ++i) {
            const double z = i;
            logs.push_back((z + 0.5) * std::log(z) - z + 0.5 * LOG_2PI + stirling_remainder(z));
        }
        return logs;
    }();
    if (x < LISTED) return list[static_cast<std::size_t>(x)];
    return (x + 0.5) * std::log(x) - x + 0.5 * LOG_2PI + stirling_remainder(x);
}

/// Return log ratio, where ratio = 1 + excess and both are accurate.
inline double log_ratio(double excess, double ratio) { return excess > -0.5 ? std::log1p(excess) : std::log(ratio); }

/// Return log Γ(A + x)/(Γ(A) x!) (B/(B + 1))^A (1/(B + 1))^x for x > 0, as a sum of deviances.
inline double log_negative_binomial(double x, double A, double B) {
    const double gap = x * B - A, N = A + x;
    return x * log_ratio(-gap / (x * (B + 1.0)), N / (x * (B + 1.0))) +
           A * log_ratio(gap / (A * (B + 1.0)), N / A * (B / (B + 1.0))) -
           0.5 * (std::log1p(x / A) + std::log(x) + LOG_2PI) + stirling_remainder(N) - stirling_remainder(A) -
           stirling_remainder(x);
}

/// The Bessel function I_ν of one order ν = D/2 − 1, scaled to F_ν(κ) = Γ(ν+1) (2/κ)^ν I_ν(κ), and its ratio.
///
/// Debye's expansions hold at the order μ = ν + steps ≥ 30; from there two recurrences lead down to ν.
class Bessel {
  public:
    struct Settings {
        double order = 0.0;     // ν
        Index steps = 0;        // from ν up to μ
        double stirling = 0.0;  // Stirling's remainder at μ
        std::vector<double> u;  // Debye's sums over k at μ, as polynomials in p, lowest power first
        std::vector<double> v;

        void for_each(auto each) {
            each("order", order);
            each("steps", steps);
            each("stirling", stirling);
            each("u", u);
            each("v", v);
        }
    };

    explicit Bessel(Settings settings) : at_(std::move(settings)) {
        for (Index j = at_.steps; j > 0; --j) inverse_.push_back(0.5 / (at_.order + static_cast<double>(j)));
    }

    double order() const { return at_.order; }

    /// Return log F_ν(κ) − κ.
    double excess(double kappa) const {
        const double mu = at_.order + static_cast<double>(at_.steps);
        const double z = kappa / mu, root = std::sqrt(1.0 + z * z), p = 1.0 / root;
        const double u = polynomial(at_.u, p);
        const double half = 0.5 * z * z / (1.0 + root);                                // (root − 1)/2
        const double leading = -mu * (2.0 * mu * half + kappa) / (mu * root + kappa);  // μ (root − 1) − κ
        const double value = leading - mu * std::log1p(half) + at_.stirling;
        const Descent down = descend(kappa, p, u);
        return value + down.logs + std::log(down.b * u * std::sqrt(p));
    }

    /// Return I_{ν+1}(κ)/I_ν(κ).
    double ratio(double kappa) const {
        const double z = kappa / (at_.order + static_cast<double>(at_.steps)), p = 1.0 / std::sqrt(1.0 + z * z);
        const Descent down = descend(kappa, p, polynomial(at_.u, p));
        return down.a / down.b;
    }

  private:
    /// The ratio a/b at ν, and F_ν/F_μ = b exp(logs).
    struct Descent {
        double a, b, logs;
    };

    /// Walk down from μ to ν. With r_j = a/b the ratio at order ν + j and k = κ/2(ν + j), the two recurrences
    /// r_{j−1} = κ/(2(ν + j) + κ r_j) and F_{j−1} = F_j (1 + k r_j) are a' = k b, b' = b + k a, F' = F b'/b: no
    /// division.
    Descent descend(double kappa, double p, double u) const {
        Descent down{ratio_above(kappa, p, u), 1.0, 0.0};
        for (const double inverse : inverse_) {
            const double k = kappa * inverse, a = down.a;
            down.a = k * down.b;
            down.b += k * a;
            if (down.b > 1e100) {
                down.logs += std::log(down.b);
                down.a /= down.b;
                down.b = 1.0;
            }
        }
        return down;
    }

    static double polynomial(const std::vector<double>& coefficients, double p) {
        double total = 0.0;
        for (auto k = coefficients.rbegin(); k != coefficients.rend(); ++k) total = total * p + *k;
        return total;
    }

    /// I_{μ+1}(κ)/I_μ(κ): the continued fraction for small κ/μ, Debye's expansions for the rest.
    double ratio_above(double kappa, double p, double u) const {
        constexpr double SMALL = 0.5;
        constexpr int FRACTION_STEPS = 16;
        const double mu = at_.order + static_cast<double>(at_.steps);
        const double z = kappa / mu;
        if (z >= SMALL) return (polynomial(at_.v, p) / (u * p) - 1.0) / z;
        const double top = mu + FRACTION_STEPS;
        double ratio = kappa / (top + std::sqrt(top * top + kappa * kappa));
        for (int j = FRACTION_STEPS; j > 0; --j) ratio = kappa / (2.0 * (mu + j) + kappa * ratio);
        return ratio;
    }

    Settings at_;
    std::vector<double> inverse_;  // 1/2(ν + j) from μ down
};

}  // namespace dyncrp
