"""Families: how the observations of a table are distributed. One file each; to add one, add a line here."""

# isort: off
from dyncrp.families.base import Family as Family
from dyncrp.families.gaussian import Gaussian as Gaussian
from dyncrp.families.normal_gamma import NormalGamma as NormalGamma
from dyncrp.families.normal_wishart import NormalWishart as NormalWishart
from dyncrp.families.bernoulli import Bernoulli as Bernoulli
from dyncrp.families.poisson import Poisson as Poisson
from dyncrp.families.categorical import Categorical as Categorical
from dyncrp.families.von_mises_fisher import VonMisesFisher as VonMisesFisher
from dyncrp.families.multinomial import Multinomial as Multinomial
from dyncrp.families.columns import Columns as Columns

#: Families by the names that files and the command line use, in the order above.
FAMILIES: dict[str, type[Family]] = {
    name: kind for name, kind in globals().items() if isinstance(kind, type) and kind is not Family
}
