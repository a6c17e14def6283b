#include "families.hpp"

dyncrp::StreamPointer dyncrp::make_stream(const Gaussian::Settings& settings, Coordinates::Settings coordinates,
                                          std::vector<Mode> modes, const Rules& rules) {
    return std::make_unique<StreamOf<Gaussian>>(settings, std::move(coordinates), std::move(modes), rules);
}
