#include "families.hpp"

dyncrp::StreamPointer dyncrp::make_stream(const Categorical::Settings& settings, Coordinates::Settings coordinates,
                                          std::vector<Mode> modes, const Rules& rules) {
    return std::make_unique<StreamOf<Categorical>>(settings, std::move(coordinates), std::move(modes), rules);
}
