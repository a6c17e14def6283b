// One function per family, each in its own translation unit, so that they compile in parallel.
#pragma once

#include "bernoulli.hpp"
#include "categorical.hpp"
#include "columns.hpp"
#include "gaussian.hpp"
#include "gaussian_diagonal.hpp"
#include "multinomial.hpp"
#include "normal_gamma.hpp"
#include "normal_wishart.hpp"
#include "poisson.hpp"
#include "stream.hpp"
#include "von_mises_fisher.hpp"

namespace dyncrp {

using StreamPointer = std::unique_ptr<Stream>;

StreamPointer make_stream(const Gaussian::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const GaussianDiagonal::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const NormalGamma::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const NormalWishart::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const Bernoulli::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const Poisson::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const Categorical::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const VonMisesFisher::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const Multinomial::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);
StreamPointer make_stream(const Columns::Settings&, Coordinates::Settings, std::vector<Mode>, const Rules&);

}  // namespace dyncrp
