#include "families.hpp"

dyncrp::StreamPointer dyncrp::make_stream(const NormalGamma::Settings& settings, Coordinates::Settings coordinates,
                                          std::vector<Mode> modes, const Rules& rules) {
    return std::make_unique<StreamOf<NormalGamma>>(settings, std::move(coordinates), std::move(modes), rules);
}
