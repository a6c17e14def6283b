#include "families.hpp"

dyncrp::StreamPointer dyncrp::make_stream(const VonMisesFisher::Settings& settings, Coordinates::Settings coordinates,
                                          std::vector<Mode> modes, const Rules& rules) {
    return std::make_unique<StreamOf<VonMisesFisher>>(settings, std::move(coordinates), std::move(modes), rules);
}
