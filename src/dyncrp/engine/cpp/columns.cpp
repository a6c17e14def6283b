#include "families.hpp"

dyncrp::StreamPointer dyncrp::make_stream(const Columns::Settings& settings, Coordinates::Settings coordinates,
                                          std::vector<Mode> modes, const Rules& rules) {
    return std::make_unique<StreamOf<Columns>>(settings, std::move(coordinates), std::move(modes), rules);
}
