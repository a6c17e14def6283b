"""Families: how the observations of a table are distributed. One file each; to add one, add a line here."""

from dyncrp.families.base import Family
from dyncrp.families.bernoulli import Bernoulli
from dyncrp.families.categorical import Categorical
from dyncrp.families.columns import Columns
from dyncrp.families.gaussian import Gaussian
from dyncrp.families.multinomial import Multinomial
from dyncrp.families.normal_gamma import NormalGamma
from dyncrp.families.normal_wishart import NormalWishart
from dyncrp.families.poisson import Poisson
from dyncrp.families.von_mises_fisher import VonMisesFisher

#: Families by the names that files and the command line use.
FAMILIES: dict[str, type[Family]] = {
    kind.__name__: kind
    for kind in (
        Gaussian,
        NormalGamma,
        NormalWishart,
        Bernoulli,
        Poisson,
        Categorical,
        VonMisesFisher,
        Multinomial,
        Columns,
    )
}

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Categorical",
    "Columns",
    "Family",
    "Gaussian",
    "Multinomial",
    "NormalGamma",
    "NormalWishart",
    "Poisson",
    "VonMisesFisher",
]
